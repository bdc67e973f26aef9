#!/bin/bash
# Train on the GPUs of one machine; the same command resumes the run after an interruption.
#
#     bash one_node.sh runs/photos igpt.s --data photos
#     DEVICES=4 bash one_node.sh runs/photos igpt.s --data photos
set -euo pipefail

exec isopix pretrain "${@:2}" --out "$1" --devices "${DEVICES:-8}"
