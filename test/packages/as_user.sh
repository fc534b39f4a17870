#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# What a user of Debian's packages does, as root of a machine of his own:
#   as_user.sh FOLDER PROGRAM
set -eu
folder=$1 program=$2
cd "$(mktemp -d /root/lend-XXXXXX)" # not in /tmp, which the overlay shares
cp "$folder"/*.deb .
export LEND_DEVICE=soft

# Triggers make the whole system's index of manual pages, which takes minutes in a guest.
install() { dpkg --no-triggers --force-unsafe-io --install "$@" >/dev/null; }

uses() {
  ./hello | grep -q 'received "hello, channel"'
  lend doctor | grep -q 'takes soft0'
  lend-run -n 2 ./hello | grep -c 'received "hello, channel"' | grep -qx 2
  lend run ibv_rc_pingpong -d soft0 -g 0 >server.txt &
  server=$!
  until lend run ibv_rc_pingpong -d soft0 -g 0 localhost >client.txt 2>&1; do
    kill -0 $server # no server, no client
    sleep 0.2
  done
  wait $server
  grep -q 'bytes in' client.txt
}

install ./*.deb
# shellcheck disable=SC2046 # flags are words
g++ -std=c++20 "$program" -o hello $(pkg-config --cflags --libs lend)
uses
echo "installed, and used"

# A later version of the same; the program is not compiled again.
for package in ./*.deb; do
  dpkg-deb --raw-extract "$package" later
  sed -i 's/0\.2\.0-1/0.2.0-2/g' later/DEBIAN/control
  rm "$package"
  dpkg-deb --build later "${package%_0.2.0-1_*}_0.2.0-2.deb" >/dev/null
  rm -r later
done
install ./*.deb
dpkg-query --show --showformat '${Version}\n' liblend0.2 | grep -qx '0.2.0-2'
uses
echo "upgraded, and used"

all="lend-doc lend-tools liblend-preload liblend-dev liblend-cm0.2 liblend-doctor0.2 liblend-group0.2 liblend0.2"
# shellcheck disable=SC2086 # names are words
dpkg --listfiles $all | grep lend | sort -u >files
# shellcheck disable=SC2086
dpkg --no-triggers --purge $all >/dev/null
while read -r file; do
  [ ! -e "$file" ] || { echo "left after the purge: $file"; exit 1; }
done <files
grep -q include/lend/lend.hpp files
echo "purged"
