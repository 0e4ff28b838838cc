# The typecheck: the value is a number. What it prints of one that is none is the candidate's.
grep -qx "[0-9][0-9]*" value.txt || { cat value.txt; echo "value.txt:1: not a number"; exit 1; }
