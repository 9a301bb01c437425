#!/usr/bin/env bash
# Build the container image: a root folder of Debian packages with Python, and the wheel with its locked packages.
# Needs root, mmdebstrap and buildah. The result is build/image/tocsin.tar, for `podman load` or `docker load`.
# build/image/root.tar is the root folder alone; without buildah, or where it cannot work, it is the only result.
set -euo pipefail
cd "$(dirname "$0")/.."

SUITE=bookworm
ID=10001
BIN=$PWD/.venv/bin
OUT=$PWD/build/image
VERSION=$("$BIN/python" -c 'import importlib.metadata; print(importlib.metadata.version("tocsin"))')

mkdir -p "$OUT"
rm -f "$OUT/root.tar" "$OUT/tocsin.tar"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root

# From a copy of the sources, so that the build leaves nothing in the checkout.
mkdir "$work/sources"
cp -r models pipeline runtime schedules tocsin web workers pyproject.toml README.md LICENSE "$work/sources"
"$BIN/python" -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir "$work" "$work/sources"

# Without documentation and translations.
mmdebstrap --quiet --variant=minbase --include=python3,ca-certificates,tzdata \
  --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
  --dpkgopt='path-exclude=/usr/share/locale/*' \
  "$SUITE" "$work/base.tar"
mkdir "$root"
tar -xf "$work/base.tar" -C "$root" --exclude=./dev/*
python=$(basename "$(readlink "$root/usr/bin/python3")")

# Exactly the packages of the lock, by their hashes, for the Python of the image. Not from the checkout: there uv would
# read the overrides of pyproject.toml, and take the newest version of those packages instead of the one in the lock.
install=("$BIN/uv" --directory "$work" pip install --quiet --no-deps --no-build-isolation --python "$BIN/python"
  --python-version "${python#python}" --target "$root/opt/tocsin/packages")
"${install[@]}" --require-hashes -r "$PWD/requirements.lock"
"${install[@]}" "$work"/tocsin-*.whl
rm -rf "$root/opt/tocsin/packages/bin"
# The installer copies files with the modes that they have in its cache on this host.
chmod -R u+rwX,go=rX "$root/opt/tocsin"

mkdir -p "$root/opt/tocsin/bin"
cat > "$root/opt/tocsin/bin/tocsin" <<'SCRIPT'
#!/bin/sh
export PYTHONPATH=/opt/tocsin/packages PYTHONDONTWRITEBYTECODE=1 TOCSIN_HOME="${TOCSIN_HOME:-/var/lib/tocsin}"
exec /usr/bin/python3 -P -m tocsin "$@"
SCRIPT
cat > "$root/opt/tocsin/bin/health" <<'SCRIPT'
#!/bin/sh
exec /opt/tocsin/bin/tocsin health
SCRIPT
chmod 755 "$root/opt/tocsin/bin/tocsin" "$root/opt/tocsin/bin/health"

# The image runs with a root folder that cannot be written: compile now.
chroot "$root" /usr/bin/python3 -m compileall -q /opt/tocsin/packages >/dev/null || true
echo "tocsin:x:$ID:$ID:Tocsin:/var/lib/tocsin:/usr/sbin/nologin" >> "$root/etc/passwd"
echo "tocsin:x:$ID:" >> "$root/etc/group"
install -d -m 700 -o "$ID" -g "$ID" "$root/var/lib/tocsin"
tar -cf "$OUT/root.tar" --numeric-owner -C "$root" .
echo "root folder: $(du -m "$OUT/root.tar" | cut -f1) MB"

export BUILDAH_FORMAT=docker BUILDAH_ISOLATION=chroot
buildah=(buildah --storage-driver vfs --root "$work/storage" --runroot "$work/run")
container=$("${buildah[@]}" from scratch) || {
  echo "buildah cannot work here: the root folder alone"
  exit 0
}
"${buildah[@]}" add --quiet "$container" "$OUT/root.tar" / >/dev/null
"${buildah[@]}" config --user "$ID:$ID" --workingdir / --entrypoint '["/opt/tocsin/bin/tocsin"]' --cmd up \
  --env TOCSIN_HOME=/var/lib/tocsin --env TOCSIN_HOST=0.0.0.0 --volume /var/lib/tocsin --port 8080 \
  --healthcheck 'CMD /opt/tocsin/bin/health' --healthcheck-interval 10s --healthcheck-timeout 5s \
  --healthcheck-start-period 30s "$container"
"${buildah[@]}" commit --quiet "$container" "docker-archive:$OUT/tocsin.tar:tocsin:$VERSION" >/dev/null
"${buildah[@]}" rm "$container" >/dev/null
echo "image tocsin:$VERSION: build/image/tocsin.tar"
