"""Published recipes of fine-tuning, of Vision Transformers: settings that `--file` takes by name.

Command:  isopix finetune RUN --data imagenet-1k --file mae.finetuning --out runs/classes
Cost:     that of ImageNet; for other images give steps and batch_size, which override the recipe's
"""

from isopix.recipes.vit import FINETUNE, PAPER_FINETUNE

FINETUNING = {
    # Dosovitskiy et al. 2021, appendix B.1.1 and table 4; the paper takes the best of four learning rates.
    "vit.finetuning": (
        *(*FINETUNE, *PAPER_FINETUNE, "data.size=384", "steps=20000", "batch_size=512"),
        *("evaluate_every=1000", "checkpoint_every=1000"),
    ),
    # He et al. 2022, table 9, of ViT-B (L and H: 50 epochs; H: drop_path 0.2). The learning rate is the base
    # rate 1e-3 times 1024 / 256, 125,100 steps are 100 epochs, and erasing is of the released code.
    "mae.finetuning": (
        *(*FINETUNE, "pool=mean", "head_bias=true", "patience=null", "drop_path=0.1"),
        *("label_smoothing=0.1", "mixup=0.8", "cutmix=1.0", "augment=rand_augment", "augment.erase=0.25"),
        *("optimizer=adamw", "optimizer.lr=0.004", "weight_decay=0.05", "layer_decay=0.75"),
        *("schedule=warmup_cosine", "warmup_epochs=5.0", "steps=125100", "batch_size=1024"),
        *("evaluate_every=1251", "checkpoint_every=1251"),
    ),
}
