# The tests: the value is not 1 any more.
! grep -q 1 value.txt || { echo "the value is too small"; exit 1; }
