#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# with_tool.sh TOOL COMMAND…: runs COMMAND if TOOL is installed, else skips.
command -v "$1" >/dev/null || {
  echo "skipped: no $1"
  exit 77
}
shift
exec "$@"
