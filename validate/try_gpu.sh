#!/bin/bash
# bash validate/try_gpu.sh [FOLDER]: a little of every recording on this machine's GPU, in a minute or two; what fails is
# named at the end. Counters need ncu.
out=${1:-$(mktemp -d)}; failed=""; mkdir -p "$out"; cd "$(dirname "$0")/.." || exit 2
try() { name=$1; shift; echo "== $name"; timeout 120 python3 -m "$@" || failed="$failed $name"; }
try record validate record --out "$out/record" --only vector_add matmul_hopper/tma --size small --repeats 2 --seconds 60
try microbench validate microbench measure --only pipe_ffma launch_gap cluster_load_2 --out "$out/micro.json" --repeats 2
echo "failed:${failed:- nothing}"; [ -z "$failed" ]
