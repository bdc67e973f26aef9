"""What is said of each part of a recipe, by the path and the kind of it."""

FROM = "pretrained"  # in the place of a kind of start: the weights of another run

# path of a part: its kind or value: what is said of it, with values of the recipe, and of `words`, by name
SAYINGS: dict[str, dict[str | bool | None, str]] = {
    "block": {
        "transformer": "transformer blocks of width {width:,} with {block.heads} attention heads",
        "convolution": "convolution blocks of width {width:,}",
        "mixer": "mixer blocks of width {width:,}",
        "axial": "axial blocks of width {width:,} with {block.heads} attention heads",
    },
    "share_blocks": {True: "All blocks are one and the same, run {depth} times over"},
    "block.norm": {
        "rms_norm": "norms that subtract no mean and have no bias",
        "layer_norm": "standard layer norms",
    },
    "stem": {
        "token_embedding": "a learned vector for {content}",
        "fourier_pixel_embedding": "{stem.frequencies:,} random Fourier frequencies (σ {stem.sigma:g}) of each "
        "of its channels, through a learned matrix,",
        "linear_pixel_embedding": "its three channels as numbers, through a learned matrix,",
        "patch_embed": "its pixels, through a learned matrix,",
        "conv_patch_embed": "its pixels, through convolutions of its own,",
        "resnet": "its pixels, through a residual network of its own,",
    },
    "positions": {
        "learned": "a learned vector for its place",
        "factorized": "learned vectors for its row and its column",
        "none": "nothing for its place",
    },
    "class_token": {True: "With the positions goes one learned vector more, the class token"},
    "codec": {
        "palette": "Each pixel is named by the nearest of {codec.colours:,} colours",
        "bytes": "Each pixel is named by its red, green and blue level of 256, its three sub-pixels",
        "mean_colour": "Each patch of {codec.patch} × {codec.patch} pixels is named by its mean colour, in"
        " {codec.bits} bits a channel",
        "downsampled_colour": "Each patch of {codec.patch} × {codec.patch} pixels is named by"
        " {codec.side} × {codec.side} colours, in {codec.bits} bits a channel",
        "grey_thumbnail": "Each patch of {codec.patch} × {codec.patch} pixels is named by the greys of 8 × 8"
        " of them, in {codec.bits} bits",
        "whole_patch": "Each patch of {codec.patch} × {codec.patch} pixels is named by the red, green and"
        " blue level of 256 of each of them, its sub-pixels",
    },
    "head": {
        "regression": "No level is chosen: each {code} is given a mean, and its loss is half the squared"
        " error of levels scaled to −1 to 1",
    },
    "codec.source": {None: "fitted to the training images by k-means"},
    "objective": {
        "autoregressive": "The network learns to name every {code} from those before it, row by row"
        " (autoregressive)",
        "masked": "The network learns to name hidden {code}s from {left} (masked, as BERT){soft}",
    },
    "objective.mask": {
        "bernoulli": "{objective.mask.ratio:.0%} of all positions are hidden, each by its own chance",
        "per_channel": "{objective.mask.ratio:.0%} of all {code}s are hidden, each by its own chance",
        "block": "{hidden}, {where}",
    },
    "objective.deterministic_mask": {True: "Of an image as it is shown the same is hidden every time"},
    "objective.corruption": {
        "mask_token": "In the place of what is hidden stands a learned vector; of what is drawn for it"
        " {objective.random_rate:.0%} shows another position, and {objective.keep_rate:.0%} itself",
        "drop": "What is hidden is left out",
    },
    "data.patch_augment": {
        "patch": "In training, colours and places of the pixels shown are disturbed at random"
    },
    "initial": {
        "openai": "as in OpenAI's code",
        "keras": "as Keras does it",
        "vit": "as in the Vision Transformer's code",
        FROM: "as those of “{origin.run}” after its step {origin.step:,}",
    },
    "data.augment": {
        "none": "taken as they are",
        "pad_crop_flip": "padded by {data.augment.pad} reflected pixels, cropped back at random and mirrored"
        " with chance {data.augment.flip:g}",
        "imagenet": "scaled and cropped at random, anew each time{mirrored}",
    },
    "optimizer": {
        "adam": "Adam (β₁ {optimizer.beta1:g}, β₂ {optimizer.beta2:g}) at a peak rate of"
        " {optimizer.learning_rate:g}",
        "adamw": "AdamW (β₁ {optimizer.beta1:g}, β₂ {optimizer.beta2:g}, decay {optimizer.weight_decay:g}) at"
        " a peak rate of {optimizer.learning_rate:g}",
    },
    "schedule": {
        "warmup_cosine": "after a {schedule.warmup_epochs:g}-epoch warm-up, at most"
        " {schedule.warmup_most:.0%} of the steps, the rate falls towards zero as half a cosine",
        "constant": "the rate stays the same",
    },
    "precision": {"fp32": "32-bit arithmetic", "bf16": "bfloat16 arithmetic with 32-bit weights"},
}
NEUTRAL = {
    "block": "blocks of the kind {}",
    "codec": "Images are coded by {}",
    "codec.source": "those of {}",
    "objective": "The objective is {}",
    "objective.mask": "Positions are hidden by {}",
    "optimizer": "The optimizer is {}",
    "schedule": "the schedule of the rate is {}",
}
# kind of codec: what one code stands for, and all codes of a position
CODES = {
    "palette": ("pixel", "its colour"),
    "bytes": ("sub-pixel", "each of its channels"),
    "mean_colour": ("mean colour", "its mean colour"),
    "downsampled_colour": ("patch colour", "each of its colours"),
    "grey_thumbnail": ("grey pixel", "each of its greys"),
    "whole_patch": ("sub-pixel", "each of its sub-pixels"),
}
