//! The table of settings: the one place that names them. The structs that the code reads come from it, and so does the
//! list that the sources are read with. `cargo xtask tidy` checks `docs/settings.md` against it.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use convoke_core::secret::SecretText;

use super::Given;
use super::typed::{
    ActEffect, AgentToken, ChangedAgents, LogLevel, Spec, address, agent_tokens, flag, list, maybe_address,
    maybe_url, number, origins, path, seconds, secret, text, url, word,
};
use super::value::{Kind, Value};

/// One setting.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Its dotted name.
    pub name: &'static str,
    /// What it takes.
    pub kind: Kind,
    /// Its default, as text.
    pub default: &'static str,
    /// What it does, in a sentence.
    pub doc: &'static str,
}

const DAY_S: u64 = 86_400;
const MIB: u64 = 1024 * 1024;

/// Makes [`SETTINGS`] and [`Settings`] from rows `name: Type = kind, default, doc;`. A type that is not the kind's does not
/// compile.
macro_rules! settings {
    (@name $group:ident $name:ident) => { concat!(stringify!($group), ".", stringify!($name)) };
    ($($group:ident: $Group:ident {
        $($name:ident: $Type:ty = $kind:expr, $default:literal, $doc:literal;)+
    })+) => {
        /// Every setting, by name.
        pub const SETTINGS: &[Setting] = &[$($({
            const SPEC: Spec<$Type> = $kind;
            Setting { name: settings!(@name $group $name), kind: SPEC.kind, default: $default, doc: $doc }
        },)+)+];

        /// The settings in force.
        #[derive(Clone, Debug)]
        pub struct Settings {
            $(#[doc = concat!("The settings named `", stringify!($group), ".…`.")]
            pub $group: $Group,)+
            pub(super) given: Given,
        }

        $(#[doc = concat!("The settings named `", stringify!($group), ".…`.")]
        #[derive(Clone, Debug)]
        pub struct $Group {
            $(#[doc = $doc] pub $name: $Type,)+
        })+

        impl Settings {
            /// Reads the value of each setting into its type.
            pub(super) fn read<'v>(value: impl Fn(&str) -> &'v Value, given: Given) -> Self {
                Self {
                    $($group: $Group {
                        $($name: {
                            const SPEC: Spec<$Type> = $kind;
                            SPEC.read(value(settings!(@name $group $name)))
                        },)+
                    },)+
                    given,
                }
            }
        }
    };
}

settings! {
    approvals: ApprovalSettings {
        elicitation: bool = flag(), "false", "Whether a client's own prompt counts as a person's approval.";
        max_waiting: usize = number(1, 100_000), "1000", "Most calls that may wait for a person at once; others are refused.";
        max_waiting_per_token: usize = number(1, 100_000), "100", "Most calls of one token that may wait for a person at once; others are refused with `limited`.";
        ttl_s: Duration = seconds(1, 30 * DAY_S), "900", "How long a call waits for a person.";
    }
    bus: BusSettings {
        url: Option<SecretText> = secret(), "", "Address of a NATS server through which hubs that share a database (store.url) reach each other: nats://user:password@host:port, or tls://.";
    }
    calls: CallSettings {
        default_timeout_s: Duration = seconds(1, DAY_S), "30", "How long a call may take when its caller gives no time-out.";
        grace_s: Duration = seconds(0, 300), "5", "Time that the hub waits beyond the agent's own time-out.";
        max_answer_bytes_held: usize = number(MIB, 4095 * MIB), "268435456", "Most bytes of large answers (over 64 KiB, counted twice) in memory at once; when they are full, calls with a large answer fail with `busy`.";
        max_result_bytes_kept: usize = number(0, 64 * MIB), "1048576", "Largest result that is kept to be read later.";
        max_timeout_s: Duration = seconds(1, 7 * DAY_S), "3600", "Longest time-out that a caller may request.";
    }
    events: EventSettings {
        max_streams: usize = number(1, 100_000), "1000", "Most streams of events (`GET /api/events`) open at once; one more is refused with `busy`.";
        max_streams_per_token: usize = number(1, 100_000), "20", "Most streams of events of one token; one more is refused with `limited`.";
    }
    hub: HubSettings {
        address: Option<String> = maybe_url(), "", "The address by which other hubs of the same database reach this one, if it is not the listen address.";
        allowed_hosts: Vec<String> = list(), "", "Host names, besides its own address, that requests may use; `*` for any.";
        allowed_origins: Vec<String> = origins(), "", "Browser origins, besides the hub's own, that may use the API.";
        drain_s: Duration = seconds(0, 600), "10", "How long a stopping hub waits for running calls.";
        insecure_listen: bool = flag(), "false", "Allow HTTP without TLS on an address other than loopback.";
        lease_s: Duration = seconds(5, 600), "10", "How long other hubs of the same database wait for one that is not heard of before they take its place; it stops by itself after two thirds of that.";
        listen: SocketAddr = address(), "127.0.0.1:7410", "The address to listen on.";
        log_level: LogLevel = word(), "info", "The level of the log on standard error.";
        max_body_bytes: usize = number(1024, 64 * MIB), "1048576", "Largest body of a request.";
        max_bytes_arriving: usize = number(MIB, 4095 * MIB), "268435456", "Most bytes of large messages (over 64 KiB) of agents and clients that arrive at once; others wait, and are dropped after 20 seconds.";
        max_connections: usize = number(16, 1_000_000), "18000", "Most open connections; others are closed at once.";
        max_concurrent_calls: usize = number(1, 1_000_000), "10000", "Most calls that run at once; others are refused with `busy`.";
        name: Option<String> = text(), "", "This hub's name among those that share a database (store.url); unset, it is hub.";
        public_url: Option<String> = maybe_url(), "", "The address by which agents and people reach the hub, if it is not the listen address.";
        workers: usize = number(0, 1024), "0", "Threads that serve connections; 0 for one fewer than processors, and at least one.";
    }
    kenny: KennySettings {
        agent_tokens: Vec<AgentToken> = agent_tokens(), "", "Legacy bearer tokens, as `id=token`; only with kenny.allow_token_auth.";
        allow_token_auth: bool = flag(), "false", "Accept agents that have only a bearer token (for a migration).";
        enrol_token_ttl_s: Duration = seconds(60, 30 * DAY_S), "3600", "How long an enrolment token is valid.";
        heartbeat_s: Duration = seconds(1, 3600), "30", "Seconds between heartbeats; an agent is offline after three missed ones.";
        log_lines_per_minute: u64 = number(1, 1_000_000), "600", "Log lines accepted from one agent a minute; more are dropped and counted.";
        max_frame_bytes: usize = number(65_536, 256 * MIB), "8388608", "Largest frame of an agent; a call whose answer is larger fails, at twice that the socket closes.";
        max_telemetry_bytes: usize = number(16_384, 64 * MIB), "262144", "Largest snapshot or log frame of an agent; a larger one is dropped and counted.";
        max_handshakes: usize = number(1, 1_000_000), "4096", "Most agents that may authenticate at once; others are told to try again.";
        max_in_flight: usize = number(1, 65_536), "1024", "Most calls that run on one agent at once.";
        snapshots_per_minute: u64 = number(1, 1_000_000), "30", "Snapshots accepted from one agent a minute; of more only the newest is kept, the others are counted.";
        update_dir: Option<PathBuf> = path(), "", "Folder of agent binaries, named kenny-agent-VERSION-OS-ARCH, for `agents update`.";
        update_link_ttl_s: Duration = seconds(10, DAY_S), "600", "How long a download link for an update is valid.";
    }
    mcp: McpSettings {
        max_result_bytes: usize = number(4096, 16 * MIB), "262144", "Most bytes of a machine's answer that an assistant gets; cuts are marked.";
        max_sessions: usize = number(1, 100_000), "1000", "Most MCP sessions open at once; others are refused with `busy`.";
        max_sessions_per_token: usize = number(1, 100_000), "64", "Most MCP sessions of one token; a new one closes the longest unused.";
        session_idle_s: Duration = seconds(10, 7 * DAY_S), "7200", "How long an unused MCP session stays open.";
    }
    notices: NoticeSettings {
        allow_hosts: Vec<String> = list(), "", "Hosts (`name` or `name:port`) that notices may go to although they are private or not https.";
    }
    policy: PolicySettings {
        viewer_paths: Vec<String> = list(), "/var/log,/Library/Logs,C:/Windows/Logs,C:/Windows/System32/LogFiles,C:/inetpub/logs", "Folders below which viewers may read contents (`fs_read`, log probes of agents that cannot check paths themselves); elsewhere that needs the role operator.";
    }
    retention: RetentionSettings {
        agent_mb: u64 = number(0, 1_000_000), "1024", "Megabytes of snapshots, and as many of log lines, kept of each agent; the oldest go. 0 keeps them all.";
        logs_days: u64 = number(0, 36_500), "30", "Days log lines are kept; 0 keeps them for ever.";
        messages_days: u64 = number(0, 36_500), "30", "Days messages are kept in the inbox; 0 keeps them for ever.";
        telemetry_days: u64 = number(0, 36_500), "30", "Days snapshots are kept; 0 keeps them for ever. Each agent's latest stays.";
    }
    rooms: RoomSettings {
        act_effect: ActEffect = word(), "interact", "What an action that a participant asks for in a room counts as, for rights and confirm rules.";
        frames_per_second: u32 = number(1, 1_000_000), "50", "Frames accepted from one participant of a room a second; more are dropped, and the sender is told.";
        jwks_hosts: Vec<String> = list(), "", "Hosts (`name` or `name:port`) from which issuers' keys are fetched although they are private or not https.";
        max_bridged: usize = number(0, 200), "16", "Most relay participants in one mesh room; the hub speaks for each of them there.";
        max_participants: usize = number(1, 10_000), "200", "Most participants in one room; others are told that it is full.";
        max_rooms: usize = number(1, 100_000), "1000", "Most rooms.";
        turn_secret: Option<SecretText> = secret(), "", "Secret shared with the TURN servers (coturn's static-auth-secret), from which credentials for participants are made.";
        turn_url: Vec<String> = list(), "", "Addresses of TURN servers for participants of mesh rooms who cannot reach each other, as in turn:turn.example:3478.";
        udp_listen: Option<String> = text(), "", "UDP address and port for WebRTC in mesh rooms, or `off`. Unset: the address of hub.listen and a free port.";
        udp_public: Option<String> = text(), "", "Address, with or without a port, under which participants reach rooms.udp_listen, where it is another than that.";
    }
    sonde: SondeSettings {
        cache_s: Duration = seconds(0, 3600), "10", "How long a probe's result is shared with callers of the same probe; 0 runs the probe every time.";
        changed_agents: ChangedAgents = word(), "flag", "What happens to an agent whose attestation changed, until it is accepted: only flagged, its probes refused, or not admitted.";
        enrol_token_ttl_s: Duration = seconds(10, 30 * DAY_S), "900", "How long a Sonde enrolment token is valid.";
        heartbeat_s: Duration = seconds(1, 3600), "30", "Seconds between a Sonde agent's heartbeats; it is offline after three missed ones.";
        latest_agent_version: Option<String> = text(), "", "The newest agent version; older agents are notified when they connect.";
        max_frame_bytes: usize = number(65_536, 64 * MIB), "1048576", "Largest message of a Sonde agent; a probe whose answer is larger fails, at twice that the socket closes.";
        max_in_flight: usize = number(1, 65_536), "256", "Most probes that run on one Sonde agent at once.";
        runbook_dir: Option<PathBuf> = path(), "", "Folder of runbooks (TOML) besides the built-in ones.";
        tls_listen: Option<SocketAddr> = maybe_address(), "", "Address of a second listener for Sonde agents, with mutual TLS against the hub's own CA.";
        tls_names: Vec<String> = list(), "", "Host names and addresses by which agents reach sonde.tls_listen, for its certificate.";
    }
    store: StoreSettings {
        accept_damaged_log: bool = flag(), "false", "Where the database's write-ahead log or the journal's tail is damaged, keep a copy of it and start without what cannot be read. For one start.";
        queue_limit: usize = number(64, 1_000_000), "8192", "Most writes that may wait for the disk.";
        url: Option<SecretText> = secret(), "", "Address of a PostgreSQL database that keeps the data instead of the data directory: postgres://user:password@host/database.";
    }
    tls: TlsSettings {
        cert: Option<PathBuf> = path(), "", "The certificate chain for TLS (PEM).";
        key: Option<PathBuf> = path(), "", "The certificate's private key (PEM).";
        own: bool = flag(), "false", "Without tls.cert: serve TLS with a certificate of the hub's own, which agents know by the hub's public key.";
    }
    tokens: TokenSettings {
        calls_per_minute: u32 = number(0, 1_000_000), "0", "Calls a minute of one token without a limit in its scopes; 0 for no limit.";
        concurrent_calls: u32 = number(0, 1_000_000), "2000", "Calls at once of one token without a limit in its scopes; 0 for no limit.";
    }
    yonexus: YonexusSettings {
        allow: Vec<String> = list(), "", "Identifiers of clients that may pair, besides those that operators add.";
        auth_timeout_s: Duration = seconds(1, 3600), "30", "How long a client may take to authenticate.";
        discord_admin_user: Option<String> = text(), "", "Discord user who gets pairing codes.";
        discord_base_url: String = url(), "https://discord.com/api/v10", "Address of Discord's API.";
        discord_bot_token: Option<SecretText> = secret(), "", "Token of the Discord bot that sends pairing codes.";
        frames_per_second: u32 = number(1, 100_000_000), "5000", "Messages accepted from one client a second; more are dropped and counted, and the sender is told.";
        heartbeat_ack: bool = flag(), "false", "Answer heartbeats.";
        inbox_max: u64 = number(1, 100_000_000), "100000", "Most messages kept in the inbox; the oldest are deleted.";
        max_clients: usize = number(1, 1_000_000), "20000", "Most clients on the allow-list.";
        max_handshakes: usize = number(1, 1_000_000), "1024", "Most clients that may pair or authenticate at once; others are told to try again.";
        max_pairings: usize = number(1, 100_000), "100", "Most pairing codes that may be valid at once.";
        offline_after_s: Duration = seconds(1, DAY_S), "660", "Time without a heartbeat after which a client is offline and disconnected.";
        outbox_max_bytes: u64 = number(1024, 1024 * 1024 * MIB), "268435456", "Most bytes of messages that may wait for all clients together.";
        outbox_max_per_client: u64 = number(1, 1_000_000), "1000", "Most messages that may wait for one client.";
        pairing_ttl_s: Duration = seconds(60, 3600), "300", "How long a pairing code is valid.";
        status_watchers: Vec<String> = list(), "", "Clients that are notified when another's liveness changes; `*` for all.";
        unstable_after_s: Duration = seconds(1, DAY_S), "420", "Time without a heartbeat after which a client is unstable.";
        webhook_secret: Option<SecretText> = secret(), "", "Secret that signs the requests to yonexus.webhook_url.";
        webhook_url: Option<String> = maybe_url(), "", "Webhook that gets pairing codes.";
    }
}

/// Names that earlier versions had. A source may still set them: the hub warns at its start with this sentence, and
/// ignores the value.
pub(super) const RETIRED: &[(&str, &str)] =
    &[("store.tail", "records are written to the database alone; remove this setting")];
