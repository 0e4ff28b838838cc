struct S;
fn lib() {}
