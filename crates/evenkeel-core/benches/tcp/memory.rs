//! Octets of memory that a connection takes which has nothing to do.

use allocation_counter::measure;

use crate::ends::Ends;

const CONNECTIONS: [usize; 3] = [1_000, 10_000, 100_000];

#[expect(clippy::print_stdout, reason = "the table is what this program is for")]
pub(crate) fn report() {
    println!("\n{:<44} {:>10}", "idle connections", "octets of memory each, at either end");
    for connections in CONNECTIONS {
        let mut ends = Ends::new(0, 1_000, 4);
        let allocated = measure(|| (0..connections).for_each(|_| _ = ends.establish()));
        let octets = allocated.bytes_current as f64 / connections as f64 / 2.0;
        println!("{connections:<44} {octets:>10.0}");
    }
}
