//! The UDP sockets of a participant. Each connection that it dials has one of its own: two connections between the same two
//! addresses could not be told apart, and a hub has several media peers at one address.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket as StdUdp};
use std::sync::Arc;

use tokio::net::UdpSocket;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

/// Largest datagram.
const MAX_DATAGRAM: usize = 2_048;
/// Datagrams that were read and not looked at.
const MAX_WAITING: usize = 256;

/// A datagram that came.
#[derive(Debug)]
pub(crate) struct Datagram {
    pub(crate) from: SocketAddr,
    /// To which of our addresses.
    pub(crate) to: SocketAddr,
    pub(crate) bytes: Vec<u8>,
}

/// The sockets, by their addresses.
pub(crate) struct Sockets {
    ip: IpAddr,
    open: HashMap<SocketAddr, (Arc<UdpSocket>, AbortHandle)>,
    sending: mpsc::Sender<Datagram>,
    arrived: mpsc::Receiver<Datagram>,
}

impl Drop for Sockets {
    fn drop(&mut self) {
        self.open.values().for_each(|(_, reader)| reader.abort());
    }
}

impl Sockets {
    /// None yet, at the address of this machine from which the hub is reached. Finding it sends nothing.
    pub(crate) async fn towards(host: &str) -> io::Result<Self> {
        let target = if host.rsplit_once(':').is_some_and(|(_, port)| port.bytes().all(|b| b.is_ascii_digit())) {
            host.to_owned()
        } else {
            format!("{host}:443")
        };
        let found = tokio::net::lookup_host(target).await?.next();
        let there = found.ok_or_else(|| io::Error::from(io::ErrorKind::AddrNotAvailable))?;
        let any: SocketAddr = if there.is_ipv4() { ([0; 4], 0).into() } else { ([0u16; 8], 0).into() };
        let probe = StdUdp::bind(any)?;
        probe.connect(there)?;
        let (sending, arrived) = mpsc::channel(MAX_WAITING);
        Ok(Self { ip: probe.local_addr()?.ip(), open: HashMap::new(), sending, arrived })
    }

    /// Another one, at a free port.
    pub(crate) fn open(&mut self) -> io::Result<SocketAddr> {
        let socket = StdUdp::bind((self.ip, 0))?;
        socket.set_nonblocking(true)?;
        let socket = Arc::new(UdpSocket::from_std(socket)?);
        let to = socket.local_addr()?;
        let (reads, sending) = (Arc::clone(&socket), self.sending.clone());
        let reader = tokio::spawn(async move {
            let mut buffer = vec![0; MAX_DATAGRAM];
            loop {
                // What cannot be read now was lost on its way, as datagrams are.
                let Ok((size, from)) = reads.recv_from(&mut buffer).await else { continue };
                let datagram = Datagram { from, to, bytes: buffer[..size].to_vec() };
                if sending.send(datagram).await.is_err() {
                    return;
                }
            }
        });
        self.open.insert(to, (socket, reader.abort_handle()));
        Ok(to)
    }

    pub(crate) fn close(&mut self, address: SocketAddr) {
        if let Some((_, reader)) = self.open.remove(&address) {
            reader.abort();
        }
    }

    /// The next datagram. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Option<Datagram> {
        self.arrived.recv().await
    }

    /// One that is there already.
    pub(crate) fn waiting(&mut self) -> Option<Datagram> {
        self.arrived.try_recv().ok()
    }

    /// A full socket drops, as a network does.
    pub(crate) fn send(&self, from: SocketAddr, to: SocketAddr, bytes: &[u8]) {
        if let Some((socket, _)) = self.open.get(&from) {
            let _ = socket.try_send_to(bytes, to);
        }
    }
}
