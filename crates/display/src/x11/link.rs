//! Connections to one server, and what can go wrong with them.

use std::io;
use std::os::unix::net::UnixStream;

use nix::sys::socket::{getsockopt, sockopt};
use spry_policy::Tgid;
use x11rb::connection::RequestConnection;
use x11rb::errors::{ConnectError, ConnectionError, ReplyError, ReplyOrIdError};
use x11rb::protocol::composite::{self, ConnectionExt as _};
use x11rb::protocol::damage::{self, ConnectionExt as _};
use x11rb::protocol::record::{self, ConnectionExt as _};
use x11rb::protocol::res::{self, ConnectionExt as _};
use x11rb::protocol::shape;
use x11rb::protocol::xfixes::{self, ClientDisconnectFlags, ConnectionExt as _};
use x11rb::protocol::xinput::{self, ConnectionExt as _};
use x11rb::rust_connection::RustConnection;

use super::stream::Quiet;
use super::{Slot, auth, lock, server, sockets};

/// Why a display is not watched, or no longer.
#[derive(Debug, thiserror::Error)]
pub(super) enum LinkError {
    /// Nobody listens.
    #[error("nobody answers: {0}")]
    Nobody(io::Error),
    /// Nobody lets us in.
    #[error("the server does not let us in: {0}")]
    Refused(ConnectError),
    /// The server cannot be observed.
    #[error("the server has no {0} extension")]
    NoExtension(&'static str),
    /// The connection broke.
    #[error("the connection broke: {0}")]
    Broken(String),
}

macro_rules! broken {
    ($($error:ty),*) => {
        $(impl From<$error> for LinkError {
            fn from(error: $error) -> LinkError {
                LinkError::Broken(error.to_string())
            }
        })*
    };
}
broken!(ConnectionError, ReplyError, ReplyOrIdError, io::Error);

/// A connection to a server.
pub(super) type Server = RustConnection<Quiet>;

/// A server that lets us in.
pub(super) struct Link {
    /// For requests and their events.
    pub(super) control: Server,
    /// For what RECORD tells: of core events, and of the long ones.
    pub(super) data: [Server; 2],
    /// Who listens at the socket.
    pub(super) listener: Tgid,
}

impl Link {
    /// Connects, with what the server wants to be told. The sockets are left where the door can shut them.
    pub(super) fn open(slot: &Slot) -> Result<Link, LinkError> {
        let number = slot.number;
        let first = UnixStream::connect(sockets::path(number)).map_err(LinkError::Nobody)?;
        let listener = getsockopt(&first, sockopt::PeerCredentials).map_err(io::Error::from)?;
        let listener = Tgid(listener.pid() as u32);
        let server = server::nested_server(listener, number).unwrap_or(listener);
        let mut sockets = Some(first);
        let mut refusal = None;
        for authority in auth::authorities(number, server::authority_file(server)) {
            let mut join = || -> Result<Result<Server, ConnectError>, LinkError> {
                let socket = match sockets.take() {
                    Some(socket) => socket,
                    None => UnixStream::connect(sockets::path(number)).map_err(LinkError::Nobody)?,
                };
                lock(&slot.public).sockets.push(socket.try_clone()?);
                let stream = Quiet::new(socket)?;
                let (name, data) = (authority.name.clone(), authority.data.clone());
                Ok(RustConnection::connect_to_stream_with_auth_info(stream, 0, name, data))
            };
            match join()? {
                Ok(control) => {
                    let data = [join()?.map_err(LinkError::Refused)?, join()?.map_err(LinkError::Refused)?];
                    let link = Link { control, data, listener };
                    link.introduce()?;
                    return Ok(link);
                }
                Err(error) => {
                    lock(&slot.public).sockets.clear();
                    refusal = refusal.or(Some(error));
                }
            }
        }
        match refusal {
            // A server that has not got so far yet, or has just ended, is none that refuses.
            Some(ConnectError::IoError(error)) => Err(LinkError::Nobody(error)),
            Some(error) => Err(LinkError::Refused(error)),
            None => Err(LinkError::Nobody(io::ErrorKind::NotConnected.into())),
        }
    }

    /// Agrees on versions of the extensions that observing takes.
    fn introduce(&self) -> Result<(), LinkError> {
        let control = &self.control;
        let extensions = [
            record::X11_EXTENSION_NAME,
            res::X11_EXTENSION_NAME,
            damage::X11_EXTENSION_NAME,
            xfixes::X11_EXTENSION_NAME,
            xinput::X11_EXTENSION_NAME,
            shape::X11_EXTENSION_NAME,
            composite::X11_EXTENSION_NAME,
        ];
        for name in extensions {
            control.prefetch_extension_information(name)?;
        }
        for name in &extensions[..6] {
            control.extension_information(name)?.ok_or(LinkError::NoExtension(name))?;
        }
        control.xfixes_query_version(6, 0)?;
        control.damage_query_version(1, 1)?;
        control.res_query_version(1, 2)?;
        control.record_query_version(1, 13)?;
        let input = control.xinput_xi_query_version(2, 2)?;
        if control.extension_information(composite::X11_EXTENSION_NAME)?.is_some() {
            control.composite_query_version(0, 4)?;
        }
        input.reply()?;
        // A server that ends with its last client may end although we are there. An older one does not know the request.
        for connection in [control, &self.data[0], &self.data[1]] {
            connection.record_query_version(1, 13)?.reply()?;
            if connection.xfixes_query_version(6, 0)?.reply()?.major_version >= 6 {
                connection.xfixes_set_client_disconnect_mode(ClientDisconnectFlags::TERMINATE)?;
            }
        }
        Ok(())
    }
}
