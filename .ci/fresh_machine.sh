#!/usr/bin/env bash
# Do what the README says, as a plain user of a minimal Debian: install, send the first alert, run tests.
# `fresh_machine.sh` runs `make quick` and the tests of commands: about four minutes. `fresh_machine.sh all` runs
# all tests on SQLite. Needs root, mmdebstrap, unshare and the network. SUITE=sid: a Debian with a newer Python.
#
# All mounts and processes are in namespaces, and end with this script.
set -euo pipefail
cd "$(dirname "$0")/.."

SUITE=${SUITE:-trixie}
PACKAGES=python3-venv,make,curl,git
MAX_AGE_DAYS=7
USER_ID=1000
cache=${XDG_CACHE_HOME:-$HOME/.cache}/tocsin
base=$cache/fresh-$SUITE.tar
case "${1:-quick}" in
  quick) tests="make quick && .venv/bin/python -m pytest tests/tocsin/commands -n 2 --dist loadfile" ;;
  all) tests="make test test-processes" ;;
  *)
    echo "usage: fresh_machine.sh [quick|all]" >&2
    exit 2
    ;;
esac

work=$(mktemp -d)
trap 'rm -rf --one-file-system "$work"' EXIT
root=$work/root
home=/home/someone

# A root folder of the last days is used again. Another run must not see half of it.
mkdir -p "$cache"
if [ -z "$(find "$base" -mtime "-$MAX_AGE_DAYS" 2>/dev/null)" ]; then
  mmdebstrap --quiet --variant=minbase --include="$PACKAGES,ca-certificates" \
    --aptopt='Acquire::Check-Valid-Until "false"' "$SUITE" "$work/base.tar"
  mv "$work/base.tar" "$base.$$" && mv "$base.$$" "$base"
fi
mkdir "$root"
tar -xf "$base" -C "$root" --exclude='./dev/*'
echo "someone:x:$USER_ID:$USER_ID::$home:/bin/bash" >> "$root/etc/passwd"
echo "someone:x:$USER_ID:" >> "$root/etc/group"
mkdir -p "$root$home"

# The network of this machine, with the certificates and the package index that it uses.
cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
certificates=/etc/ssl/certs/ca-certificates.crt
[ ! -f "$certificates" ] || cp "$certificates" "$root$certificates"
[ ! -f /etc/pip.conf ] || cp /etc/pip.conf "$root/etc/"
network=()
for name in PIP_INDEX_URL PIP_TRUSTED_HOST PIP_DEFAULT_TIMEOUT PIP_CERT http_proxy https_proxy no_proxy; do
  [ -z "${!name:-}" ] || network+=("$name=${!name}")
done

git clone --quiet --no-hardlinks . "$root$home/tocsin"
cat > "$root$home/alert.sh" <<'SCRIPT'
# Run the blocks of the README that start Tocsin and send the first alert. `tocsin init` needs a terminal.
set -eu
export PATH="$PWD/.venv/bin:$PATH"
python3 - > ../blocks.sh <<'PYTHON'
import pathlib, re
blocks = re.findall(r"^```sh\n(.*?)^```$", pathlib.Path("README.md").read_text(), re.M | re.S)
start = next(number for number, block in enumerate(blocks) if block.startswith("tocsin up"))
print(blocks[start] + blocks[start + 1])
PYTHON
mkdir -m 700 var
. ../blocks.sh
tocsin incidents | tee ../incidents
grep -q "Disk full on db1" ../incidents
kill $!
wait $! || true
echo "the first alert opened an incident"
SCRIPT
chown -R "$USER_ID:$USER_ID" "$root$home"

# inside COMMAND [--net]: run a command as the plain user, in the root folder and in namespaces of its own. With --net,
# it has only the loopback interface.
inside() {
  unshare --mount --pid --fork --kill-child "${@:2}" bash -euc '
    root=$1 user=$2 home=$3 command=$4
    shift 4
    mount --rbind /dev "$root/dev"
    mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
    mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
    mount -t proc proc "$root/proc"
    ip link set lo up 2>/dev/null || true
    exec chroot --userspec="$user:$user" "$root" /usr/bin/env -i PATH=/usr/local/bin:/usr/bin:/bin HOME="$home" \
      USER=someone TERM=dumb "$@" bash -euo pipefail -c "cd $home/tocsin; $command"
  ' inside "$root" "$USER_ID" "$home" "$1" "${network[@]}"
}

echo "-- $SUITE: $(chroot "$root" python3 --version)"
inside "make install"
inside "make .venv/dev.stamp"
# From here without a network: port 8080 is free, and neither Tocsin nor its tests need other hosts.
inside "bash ../alert.sh" --net
inside "$tests" --net
