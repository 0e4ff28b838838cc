# The tests: the value is not 1 any more. What is printed is the candidate's.
cat gate.txt 2>/dev/null || true
! grep -q "^the value is 1$" value.txt || { echo "the value is too small"; exit 1; }
