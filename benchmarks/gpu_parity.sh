#!/usr/bin/env bash
# Does the GPU compute what the CPU computes? In at most eight minutes:
#
#   benchmarks/gpu_parity.sh [FOLDER]      (default: reports/published/gpu)
#
# builds examples/cuda_grpo for the device and compares CPU and CUDA for it, for TRL and for Liger's torch loss, with
# the oracle as third voice. FOLDER/parity.md is the report, FOLDER/*/ hold each check's JSON and failing cases.
# Without a CUDA device everything runs on the CPU, and the report says that CUDA was not available.
#
# PYTHON is the interpreter whose torch, TRL and transformers are used, LOSSGATE the command; LOSSGATE_CACHE may hold
# liger==0.8.5 already. Exit codes: 0 nothing fails, 1 an execution is outside the bound, 3 something did not run.
set -uo pipefail
cd "$(dirname "$0")/.."

OUT=${1:-reports/published/gpu}
PYTHON=${PYTHON:-.venv/bin/python}
LOSSGATE=${LOSSGATE:-.venv/bin/lossgate}
LIBRARY=./examples/cuda_grpo/build/libgrpo.so
BEGIN=$SECONDS
LIMIT=480
STATUS=0

mkdir -p "$OUT" || exit 3
REPORT=$OUT/parity.md

left() { echo $((LIMIT - (SECONDS - BEGIN))); }

# The most that a step may take: its own share, and never more than is left.
share() { local rest; rest=$(left); echo $(($1 < rest ? $1 : rest > 1 ? rest : 1)); }

worse() { if [ "$1" -gt "$STATUS" ]; then STATUS=$1; fi; }

check() { # NAME SECONDS TARGET OPTION...
    local name=$1 seconds code
    seconds=$(share "$2")
    shift 2
    echo "$name: lossgate parity $* (at most $seconds s)" >&2
    rm -rf "${OUT:?}/$name"
    timeout --signal=TERM --kill-after=10 "$seconds" \
        "$LOSSGATE" parity "$@" --quiet --format markdown --out "$OUT/$name" >"$OUT/$name.tmp"
    code=$?
    printf '\n`lossgate parity %s`\n\n' "$*" >>"$REPORT"
    # 4: there was nothing to compare, which the report itself says.
    case $code in
    0 | 4) ;;
    1) worse 1 ;;
    124 | 130 | 137 | 143) printf 'It did not end within %s s.\n' "$seconds" >>"$REPORT"; worse 3 ;;
    *) printf 'It did not run: exit code %s.\n' "$code" >>"$REPORT"; worse 3 ;;
    esac
    sed 's/^# /## /' "$OUT/$name.tmp" >>"$REPORT"
    rm -f "$OUT/$name.tmp"
}

{
    echo "# CPU against CUDA"
    echo
    "$PYTHON" - <<'PY'
import platform
import torch

print(f"- torch {torch.__version__}, Python {platform.python_version()}, {platform.system()} {platform.machine()}")
if torch.cuda.is_available():
    for number in range(torch.cuda.device_count()):
        major, minor = torch.cuda.get_device_capability(number)
        print(f"- CUDA {torch.version.cuda}: {torch.cuda.get_device_name(number)}, sm_{major}{minor}")
else:
    print("- **no CUDA device was available: the CUDA legs below were not run**")
PY
} >"$REPORT" || worse 3

echo "building examples/cuda_grpo" >&2
if timeout "$(share 180)" "$PYTHON" examples/cuda_grpo/build.py >&2; then
    check grpo-kernel 90 "$LIBRARY#lossgate_example::grpo_loss" \
        --loss-type grpo,bnpo,dr_grpo,dapo --devices cpu,cuda --dtypes float32,bfloat16,float16
else
    printf '\nexamples/cuda_grpo was not built: see what the build printed.\n' >>"$REPORT"
    worse 3
fi
check trl 120 trl --devices cpu,cuda --dtypes float32,bfloat16,float16
check liger 90 liger==0.8.5 --devices cpu,cuda --dtypes float32,bfloat16,float16
# Triton compiles for a minute: what is left of the time decides how much of it is seen.
check trl-inductor 150 trl --loss-type grpo --level token --beta 0.04 --devices cpu,cuda --dtypes float32,bfloat16 \
    --compile eager,inductor

printf '\nIt took %s s.\n' "$((SECONDS - BEGIN))" >>"$REPORT"
echo "written: $REPORT ($((SECONDS - BEGIN)) s)" >&2
exit "$STATUS"
