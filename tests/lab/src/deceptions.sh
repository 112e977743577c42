# The machine of the contests: users, a person who is logged in, a place for the terminal's jobs, sshd.
export HOME=/root
mkdir -p /run/systemd/seats /run/sshd /tmp/home /tmp/watched
echo ACTIVE_UID=1000 >/run/systemd/seats/seat0
cat >/tmp/passwd <<'end'
root:x:0:0:root:/root:/bin/sh
person:x:1000:1000::/tmp/home:/bin/sh
other:x:1001:1001::/tmp:/bin/sh
sshd:x:998:998::/run/sshd:/bin/sh
nobody:x:65534:65534::/:/bin/sh
end
mount --bind /tmp/passwd /etc/passwd
chmod 777 /tmp/watched
chown 1000:1000 /tmp/home
mkfifo /tmp/jobs; chmod 666 /tmp/jobs
/spry/person &
until [ -s /tmp/display ]; do sleep 0.2; done
if [ -x /usr/sbin/sshd ]; then
    ssh-keygen -q -t ed25519 -N '' -f /run/sshd/host; ssh-keygen -q -t ed25519 -N '' -f /tmp/key
    chown 1001 /tmp/key; cp /tmp/key.pub /run/sshd/keys
    /usr/sbin/sshd -f /dev/null -h /run/sshd/host -o UsePAM=no -o StrictModes=no \
        -o AuthorizedKeysFile=/run/sshd/keys
fi
sleep 2
# The daemon begins when the server has its devices open, so that it is found at the first look.
/spry/spry-sched run --actuator scx &
tries=0
until /spry/spry sched status 2>/dev/null | grep -q 'x11 :0: watched' || [ $tries -ge 60 ]; do
    tries=$((tries + 1)); sleep 0.5
done
sleep 2
