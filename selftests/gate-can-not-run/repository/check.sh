no-such-typechecker --strict
