//! The process of a client, which X-Resource finds by the client's socket.

use std::collections::HashMap;

use spry_policy::Tgid;
use x11rb::cookie::Cookie;
use x11rb::protocol::res::{ClientIdMask, ClientIdSpec, ConnectionExt as _, QueryClientIdsReply};

use super::link::{LinkError, Server};

/// Asks for the process that made a resource, a window for example.
pub(super) fn ask(
    connection: &Server,
    resource: u32,
) -> Result<Cookie<'_, Server, QueryClientIdsReply>, LinkError> {
    let wanted = ClientIdSpec { client: resource, mask: ClientIdMask::LOCAL_CLIENT_PID };
    Ok(connection.res_query_client_ids(&[wanted])?)
}

/// Reads the answer to [`ask`]: no process if the client has ended, or runs on another machine.
pub(super) fn answer(cookie: Cookie<'_, Server, QueryClientIdsReply>) -> Result<Option<Tgid>, LinkError> {
    let Some(reply) = cookie.reply_unchecked()? else { return Ok(None) };
    let found = reply.ids.first().and_then(|id| id.value.first().copied());
    Ok(found.filter(|&tgid| tgid > 0).map(Tgid))
}

/// The clients that received input lately, by the base of their resources.
#[derive(Debug, Default)]
pub(super) struct Clients {
    known: HashMap<u32, Option<Tgid>>,
}

impl Clients {
    /// The process of a client.
    pub(super) fn tgid(&mut self, connection: &Server, base: u32) -> Result<Option<Tgid>, LinkError> {
        if let Some(known) = self.known.get(&base) {
            return Ok(*known);
        }
        let tgid = answer(ask(connection, base)?)?;
        self.known.insert(base, tgid);
        Ok(tgid)
    }

    /// Forgets a client that has ended: the next client may get its number.
    pub(super) fn gone(&mut self, base: u32) {
        self.known.remove(&base);
    }
}
