//! The load generator and the bare relay: what is sent arrives, once, at everyone else.

use std::time::Duration;

use convoke_sim::rules::load::{Conn, run};
use convoke_sim::rules::nats::{Nats, NatsServer};
use convoke_sim::rules::relay::Relay;
use convoke_sim::ws::open;
use tokio::net::TcpStream;

const TIME: Duration = Duration::from_millis(50);

#[tokio::test]
async fn a_relay_hands_every_message_to_everyone_else() {
    let relay = Relay::start("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let mut conns = Vec::new();
    for _ in 0..4 {
        let stream = TcpStream::connect(relay.address()).await.unwrap();
        conns.push(Conn::Ws(Box::new(open(stream, relay.address(), "/", None).await.unwrap())));
    }
    let sender = conns.remove(0);
    let (flow, sender, receivers) = run(sender, conns, "chat", "x", TIME).await.unwrap();
    assert!(flow.sent > 0);
    assert_eq!((flow.arrived, receivers.len()), (3 * flow.sent, 3));
    let (again, ..) = run(sender, receivers, "chat", "x", TIME).await.unwrap();
    assert!(again.sent > 0, "the connections can be used again");
}

#[tokio::test]
async fn nats_takes_the_same_messages_where_it_is_installed() {
    let Some(server) = NatsServer::start().await.unwrap() else {
        convoke_testing::skip("nats-server is not installed");
        return;
    };
    let sender = Conn::Nats(Nats::connect(server.address, false).await.unwrap());
    let receivers = vec![Conn::Nats(Nats::connect(server.address, true).await.unwrap())];
    let (flow, ..) = run(sender, receivers, "chat", "x", TIME).await.unwrap();
    assert!(flow.sent > 0 && flow.arrived == flow.sent);
    assert!(server.usage().unwrap().user_memory > 0);
}
