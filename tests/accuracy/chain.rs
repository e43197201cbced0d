// SPDX-License-Identifier: Apache-2.0
// Rust: closures, trait objects, a sort with a comparison, recursion.
use std::hint::black_box;

trait Step {
    fn step(&self, x: u64) -> u64;
}
struct Leaf;
struct Node(Box<dyn Step>);
impl Step for Leaf {
    #[inline(never)]
    fn step(&self, x: u64) -> u64 {
        (0..300).fold(x, |a, i| black_box((a.wrapping_mul(31) + i) % 1_000_003))
    }
}
impl Step for Node {
    #[inline(never)]
    fn step(&self, x: u64) -> u64 {
        self.0.step(x + 1) + 1
    }
}

fn main() {
    let mut tree: Box<dyn Step> = Box::new(Leaf);
    for _ in 0..10 {
        tree = Box::new(Node(tree));
    }
    println!("ready");
    loop {
        let mut list: Vec<u64> = (0..32).map(|i| i * 7919 % 32).collect();
        list.sort_by_key(|x| tree.step(*x));
        black_box(list);
    }
}
