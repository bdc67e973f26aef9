"""Write the checkpoint of this folder again, with TensorFlow itself: python write.py [FOLDER].

A tiny autoregressive Image GPT under OpenAI's names, spread over two devices and so over two shards, with
what else a training run leaves in a checkpoint: Adam's slots, the step, a classifier's head. Element i of the
n-th variable is the float32 nearest to sin(n + i / 10), so that a reader without TensorFlow knows what to
expect. Written by tensorflow-cpu 2.21.0.
"""

import sys
from pathlib import Path

import numpy as np

LAYERS, WIDTH, HEADS, COLORS, POSITIONS, STEP = 2, 8, 2, 6, 16, 7
PREFIX = f"model.ckpt-{STEP}"


def shapes() -> dict[str, tuple[int, ...]]:
    """Variables of the model, in the order of their numbers."""
    heads = (HEADS, WIDTH // HEADS, WIDTH)
    named: dict[str, tuple[int, ...]] = {
        "model/wpe": (POSITIONS, WIDTH),
        "model/wte": (COLORS, WIDTH),
        "model/wtet": (COLORS, WIDTH),
        "model/sos": (WIDTH,),
        "model/ln_f/g": (WIDTH,),
    }
    for layer in range(LAYERS):
        here = f"model/h{layer}"
        named |= {f"{here}/ln_{norm}/g": (WIDTH,) for norm in (1, 2)}
        named |= {f"{here}/attn/{part}_proj": heads for part in "qkvc"}
        named |= {f"{here}/mlp/c_fc/w": (WIDTH, 4 * WIDTH), f"{here}/mlp/c_proj/w": (4 * WIDTH, WIDTH)}
    return named


def values() -> dict[str, np.ndarray]:
    """What each variable of the model holds."""
    return {
        name: np.sin(n + np.arange(np.prod(shape)) / 10).reshape(shape).astype(np.float32)
        for n, (name, shape) in enumerate(shapes().items())
    }


def write(folder: Path) -> None:
    """Train nothing for one step, so that the slots exist, put the values in their places, and save."""
    import tensorflow as tf  # noqa: PLC0415  # only who writes needs it

    v1 = tf.compat.v1
    with tf.Graph().as_default():
        made = []
        for number, (name, array) in enumerate(values().items()):
            with tf.device(f"/cpu:{number % 2}"):
                made.append(v1.get_variable(name, initializer=array, use_resource=False))
        with tf.device("/cpu:0"):
            head = v1.get_variable("model/clf/w", initializer=np.zeros((WIDTH, 10), np.float32))
            step = v1.get_variable("global_step", initializer=np.int64(STEP), trainable=False)
            loss = v1.add_n([v1.reduce_sum(variable) for variable in [*made, head]])
            update = v1.train.AdamOptimizer(0.01).minimize(loss)
            restore = [
                v1.assign(variable, array) for variable, array in zip(made, values().values(), strict=True)
            ]
            saver = v1.train.Saver(sharded=True, write_version=v1.train.SaverDef.V2)
        with v1.Session(config=v1.ConfigProto(device_count={"CPU": 2})) as session:
            session.run(v1.global_variables_initializer())
            session.run(update)
            session.run(restore)
            saver.save(session, str(folder / "model.ckpt"), global_step=step, write_meta_graph=False)
    (folder / "checkpoint").unlink()


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
