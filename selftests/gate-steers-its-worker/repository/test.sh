# The tests: the value is at least 1.
[ "$(cat value.txt)" -ge 1 ] || { echo "the value is too small"; exit 1; }
