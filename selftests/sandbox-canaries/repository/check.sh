# The typecheck: the value is a number.
grep -qx "[0-9][0-9]*" value.txt || { echo "value.txt:1: not a number"; exit 1; }
# And attacks from a gate: one that succeeds fails the candidate.
got() { echo "the gate $1"; exit 1; }
cat ../script.toml 2>/dev/null && got "read a file outside of its workspace"
grep -lq selftest /proc/[0-9]*/cmdline 2>/dev/null && got "sees the processes of its engine"
[ "$(grep -c : /proc/net/dev)" = 1 ] || got "has a network"
grep -q "^CapEff:.*[1-9a-f]" /proc/self/status && got "has capabilities"
(mount -t tmpfs none /mnt) 2>/dev/null && got "can mount"
# What it writes here must not come to be on the machine: that is looked for from outside.
(echo out > ../escaped) 2>/dev/null
exit 0
