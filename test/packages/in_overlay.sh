#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Runs a command as root on this machine's files below an overlay that is thrown away:
#   in_overlay.sh COMMAND…
# Exits 77 where no overlay can be mounted, which asks for root outside of a user namespace.
set -eu
if [ -z "${LEND_TEST_OVERLAY-}" ]; then
  unshare --mount true 2>/dev/null || exit 77
  LEND_TEST_OVERLAY=$(mktemp -d)
  export LEND_TEST_OVERLAY
  status=0
  unshare --mount --propagation private "$0" "$@" || status=$?
  rmdir "$LEND_TEST_OVERLAY"
  exit $status
fi
cd "$LEND_TEST_OVERLAY"
{
  mount -t tmpfs none .
  cd "$LEND_TEST_OVERLAY"
  mkdir upper work root
  mount -t overlay overlay -o lowerdir=/,upperdir=upper,workdir=work root
  for tree in /proc /dev /sys /tmp; do mount --rbind "$tree" "root$tree"; done
} 2>/dev/null || exit 77
exec chroot root "$@"
