fn main() {
    println!("TODO needle");
}
