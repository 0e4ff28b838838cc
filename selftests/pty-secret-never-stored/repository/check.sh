# The typecheck: the value is a number.
grep -qx "[0-9][0-9]*" value.txt || { echo "value.txt:1: not a number"; exit 1; }
