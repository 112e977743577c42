//! The cost of a context switch: two processes on one CPU that exchange a byte through pipes.

use crate::error::{Error, Result};
use crate::report::Figure;
use crate::session::Session;
use crate::sys::{self, Partner};

/// Exchanges of a sample; each is two switches.
const EXCHANGES: u32 = 10;
/// What part of a sample's time may be neither process': interrupts, where the kernel accounts for them apart.
const OTHERS: f64 = 0.1;

/// Measures it; a sample is the mean of 2 x [`EXCHANGES`] switches, ns. Each has in it the write and the read that make it, as
/// the article's.
pub(crate) fn measure(session: &Session<'_>) -> Result<Figure> {
    let partner = Partner::start().map_err(Error::system("start a second process"))?;
    let mut failed = None;
    let figure = session.collect(|| {
        let used_ns = || sys::thread_cpu_ns() + partner.cpu_ns();
        let (used_before_ns, began_ns) = (used_ns(), sys::now_ns());
        for _ in 0..EXCHANGES {
            if let Err(error) = partner.exchange() {
                failed = Some(error);
                return None;
            }
        }
        let took_ns = (sys::now_ns() - began_ns) as f64;
        let own_ns = (used_ns() - used_before_ns) as f64;
        (took_ns - own_ns <= OTHERS * took_ns).then(|| took_ns / f64::from(2 * EXCHANGES))
    });
    match failed {
        Some(error) => Err(Error::System { what: "exchange a byte with a second process", error }),
        None => figure,
    }
}
