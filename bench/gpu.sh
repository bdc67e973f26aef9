#!/usr/bin/env bash
# All that wants a GPU, in one go: run.py, which checks correctness first, and starts no benchmark after
# MINUTES (8), so that it ends within about ten. With DATA=<CIFAR-10> it then trains networks of the study at the
# paper's size for SECONDS_OF_STUDY (1200), and continues them in STUDY when called again.
set -euo pipefail
cd "$(dirname "$0")/.."
export PYTHONPATH="$PWD"
status=0
python bench/run.py --device cuda --minutes "${MINUTES:-8}" --out bench/results/speed-gpu.json || status=$?
if [ -n "${DATA:-}" ]; then
  study=${STUDY:-studies/paper}
  timeout --signal=INT "${SECONDS_OF_STUDY:-1200}" python -m isopix reproduce isotropic.study \
    --data "$DATA" --out "$study" --scale paper --device cuda || true
  python -m isopix reproduce isotropic.study --out "$study" --report-only
  python bench/collect.py "$study" study-paper
fi
exit "$status"
