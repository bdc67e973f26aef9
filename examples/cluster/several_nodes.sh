#!/bin/bash
# Train on the GPUs of several machines without a batch system. Run this on each of them; all must see the images
# and the run folder under the same path. The same command on each resumes the run after an interruption.
#
#     HEAD=node1 NODES=2 bash several_nodes.sh /shared/runs/photos igpt.s --data /shared/photos
#
# HEAD is the name of one of the machines, by which the others reach it, at PORT.
set -euo pipefail

port=${PORT:-29500}
launcher=(
    torchrun --nnodes="$NODES" --nproc-per-node="${DEVICES:-8}"
    --rdzv-backend=c10d --rdzv-endpoint="$HEAD:$port" --rdzv-id=isopix
    --max-restarts=3 # if a process fails, all start again from the last checkpoint
)

exec "${launcher[@]}" -m isopix pretrain "${@:2}" --out "$1"
