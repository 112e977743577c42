#!/bin/busybox sh
# The guest's first steps: modules, root file system, then over to spry-guest.
b=/bin/busybox
$b mount -t devtmpfs none /dev
while read -r module; do
    # Unquoted on purpose: parameters follow the name.
    $b insmod $module || exit 1
done </modules/order
if [ -e /guest-on-pmem ]; then
    $b mount -t erofs -o ro,dax /dev/pmem0 /guest || exit 1
fi
$b mount -o move /dev /guest/dev || exit 1
for directory in spry boot; do
    $b mount -o bind /$directory /guest/$directory || exit 1
done
exec $b chroot /guest /spry/bin/spry-guest
