//! Connections to one server, and their errors.

use std::io;
use std::os::unix::net::UnixStream;

use nix::sys::socket::{getsockopt, sockopt};
use spry_display::places;
use spry_display::wire::{End, Extension};
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

use super::auth::Authority;
use super::stream::Quiet;
use super::{DisplayTask, auth, server};

/// The reason why a display is not watched, or no longer watched.
#[derive(Debug, thiserror::Error)]
pub(super) enum LinkError {
    /// No server listens.
    #[error("nobody answers: {0}")]
    Nobody(io::Error),
    /// The server does not let the eyes in.
    #[error("the server does not let us in: {0}")]
    Refused(ConnectError),
    /// The server lacks an extension that the eyes need.
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

impl From<LinkError> for End {
    fn from(error: LinkError) -> End {
        match error {
            LinkError::Nobody(_) => End::NoServer,
            LinkError::Refused(_) => End::Refused,
            LinkError::NoExtension(name) => Extension::named(name).map_or(End::Broken, End::NoExtension),
            LinkError::Broken(_) => End::Broken,
        }
    }
}

impl From<ConnectError> for LinkError {
    fn from(error: ConnectError) -> LinkError {
        match error {
            // A server that is just starting, starts anew or has just ended counts as a server that does not
            // answer, not as a server that refuses.
            ConnectError::IoError(error) => LinkError::Nobody(error),
            error => LinkError::Refused(error),
        }
    }
}

/// A connection to a server.
pub(super) type Server = RustConnection<Quiet>;

/// The connections to a server that has let the eyes in.
pub(super) struct Link {
    /// The connection for requests and for the events that they lead to.
    pub(super) control: Server,
    /// The connection for drawings. It is apart, so that the eyes can leave it unread for a while and still
    /// wake up for everything else.
    pub(super) drawn: Server,
    /// The two connections on which RECORD reports events: one for core events, one for the long
    /// events of extensions.
    pub(super) data: [Server; 2],
    /// The server's process.
    pub(super) server: Tgid,
}

/// Connections to a display before anything was sent on them, and the authorities to send. No connection
/// is opened later.
pub(super) struct Door {
    /// One connection for each authority to try: only a try shows which authority the server accepts.
    ways: Vec<(Quiet, Authority)>,
    drawn: Quiet,
    data: [Quiet; 2],
    /// The server's process.
    pub(super) server: Tgid,
}

/// Opens a new connection to the display, if the process that listens there is still the process that
/// the daemon trusts.
fn knock(task: &DisplayTask) -> Result<Quiet, LinkError> {
    let stream = UnixStream::connect(places::path(task.number)).map_err(LinkError::Nobody)?;
    let peer = getsockopt(&stream, sockopt::PeerCredentials).map_err(io::Error::from)?;
    if Tgid(peer.pid() as u32) != task.listener {
        return Err(LinkError::Nobody(io::ErrorKind::ConnectionRefused.into()));
    }
    Ok(Quiet::new(stream)?)
}

impl Door {
    /// Connects, and finds the authorities that the server may accept. Nothing that the server
    /// sends is read here.
    pub(super) fn find(task: &DisplayTask) -> Result<Door, LinkError> {
        let server = server::nested_server(task.listener, task.number).unwrap_or(task.listener);
        let authorities = auth::authorities(task.number, server::authority_file(server), &task.user.home);
        let ways: Result<_, LinkError> =
            authorities.into_iter().map(|authority| Ok((knock(task)?, authority))).collect();
        let (drawn, data) = (knock(task)?, [knock(task)?, knock(task)?]);
        Ok(Door { ways: ways?, drawn, data, server })
    }
}

/// Sends the authority on a connection, as a new client does.
fn join(stream: Quiet, authority: &Authority) -> Result<Server, ConnectError> {
    let Authority { name, data } = authority.clone();
    RustConnection::connect_to_stream_with_auth_info(stream, 0, name, data)
}

impl Link {
    /// Joins the server with the first authority that it accepts.
    pub(super) fn open(door: Door) -> Result<Link, LinkError> {
        let Door { ways, drawn, data: [core, generic], server } = door;
        let mut refusal = None;
        for (stream, authority) in ways {
            match join(stream, &authority) {
                Ok(control) => {
                    let join = |stream| join(stream, &authority).map_err(LinkError::from);
                    let data = [join(core)?, join(generic)?];
                    let link = Link { control, drawn: join(drawn)?, data, server };
                    link.introduce()?;
                    return Ok(link);
                }
                Err(error) => refusal = refusal.or(Some(error)),
            }
        }
        Err(refusal.map_or_else(|| LinkError::Nobody(io::ErrorKind::NotConnected.into()), LinkError::from))
    }

    /// The connections of the eyes.
    pub(super) fn all(&self) -> [&Server; 4] {
        [&self.control, &self.drawn, &self.data[0], &self.data[1]]
    }

    /// Agrees with the server on versions of the extensions that the eyes need.
    fn introduce(&self) -> Result<(), LinkError> {
        let Link { control, drawn, .. } = self;
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
        drawn.damage_query_version(1, 1)?;
        drawn.res_query_version(1, 2)?;
        control.res_query_version(1, 2)?;
        control.record_query_version(1, 13)?;
        let input = control.xinput_xi_query_version(2, 2)?;
        if control.extension_information(composite::X11_EXTENSION_NAME)?.is_some() {
            control.composite_query_version(0, 4)?;
        }
        input.reply()?;
        // A server that ends with its last client shall end although the eyes are connected. An older server
        // lacks this request.
        for connection in self.all() {
            connection.record_query_version(1, 13)?.reply()?;
            if connection.xfixes_query_version(6, 0)?.reply()?.major_version >= 6 {
                connection.xfixes_set_client_disconnect_mode(ClientDisconnectFlags::TERMINATE)?;
            }
        }
        Ok(())
    }
}
