#!/bin/bash
# Train on the GPUs of one machine; the same command resumes the run after an interruption.
#
#     bash one_node.sh runs/photos igpt.s --data photos
#     DEVICES=4 bash one_node.sh runs/photos igpt.s --data photos
set -euo pipefail

out=$1
devices=${DEVICES:-8}

if [ -d "$out" ]; then # it has a checkpoint: the folder appears with the first one
    exec isopix resume "$out" --devices "$devices"
fi
exec isopix pretrain "${@:2}" --out "$out" --devices "$devices"
