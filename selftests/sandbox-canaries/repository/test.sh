# The tests: the value is at least 2.
[ "$(cat value.txt)" -ge 2 ] || { echo "the value is too small"; exit 1; }
