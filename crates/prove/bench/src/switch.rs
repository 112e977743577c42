//! Measures the cost of a context switch: two processes on one CPU exchange a byte through pipes.

use spry_sys::clock::{monotonic_ns, thread_cpu_ns};

use crate::error::{Error, Result};
use crate::partner::Partner;
use crate::report::Figure;
use crate::session::Session;

/// How many exchanges a sample has. Each exchange is two switches.
const EXCHANGES: u32 = 10;
/// The greatest share of a sample's time that may belong to neither process: it is the time of interrupts, if
/// the kernel accounts for them separately.
const OTHERS: f64 = 0.1;

/// Measures the switch. A sample is the mean time of 2 x [`EXCHANGES`] switches, ns. Each switch includes the
/// write and the read that cause it, as in the article.
pub(crate) fn measure(session: &Session<'_>) -> Result<Figure> {
    let partner = Partner::start().map_err(Error::system("start a second process"))?;
    let mut failed = None;
    let figure = session.collect(|| {
        let used_ns = || thread_cpu_ns() + partner.cpu_ns();
        let (used_before_ns, began_ns) = (used_ns(), monotonic_ns());
        for _ in 0..EXCHANGES {
            if let Err(error) = partner.exchange() {
                failed = Some(error);
                return None;
            }
        }
        let took_ns = (monotonic_ns() - began_ns) as f64;
        let own_ns = (used_ns() - used_before_ns) as f64;
        (took_ns - own_ns <= OTHERS * took_ns).then(|| took_ns / f64::from(2 * EXCHANGES))
    });
    match failed {
        Some(error) => Err(Error::System { what: "exchange a byte with a second process", error }),
        None => figure,
    }
}
