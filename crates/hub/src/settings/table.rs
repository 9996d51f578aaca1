//! The table of settings: the one place that names them. `docs/settings.md` is checked against it by a test.

use super::value::Kind;

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

const fn setting(name: &'static str, kind: Kind, default: &'static str, doc: &'static str) -> Setting {
    Setting { name, kind, default, doc }
}

const fn number(min: u64, max: u64) -> Kind {
    Kind::Number { min, max }
}

const DAY_S: u64 = 86_400;
const MIB: u64 = 1024 * 1024;

/// Every setting, by name.
#[rustfmt::skip]
pub const SETTINGS: &[Setting] = &[
    setting("approvals.elicitation", Kind::Bool, "false", "Whether a client's own prompt counts as a person's approval."),
    setting("approvals.max_waiting", number(1, 100_000), "1000", "Most calls that may wait for a person at once; others are refused."),
    setting("approvals.max_waiting_per_token", number(1, 100_000), "100", "Most calls of one token that may wait for a person at once; others are refused with `limited`."),
    setting("approvals.ttl_s", number(1, 30 * DAY_S), "900", "How long a call waits for a person."),
    setting("calls.default_timeout_s", number(1, DAY_S), "30", "How long a call may take when its caller gives no time-out."),
    setting("calls.grace_s", number(0, 300), "5", "Time that the hub waits beyond the agent's own time-out."),
    setting("calls.max_answer_bytes_held", number(MIB, 4095 * MIB), "268435456", "Most bytes of large answers (over 64 KiB, counted twice) in memory at once; when they are full, calls with a large answer fail with `busy`."),
    setting("calls.max_result_bytes_kept", number(0, 64 * MIB), "1048576", "Largest result that is kept to be read later."),
    setting("calls.max_timeout_s", number(1, 7 * DAY_S), "3600", "Longest time-out that a caller may request."),
    setting("hub.allowed_hosts", Kind::List, "", "Host names, besides its own address, that requests may use; `*` for any."),
    setting("hub.allowed_origins", Kind::Origins, "", "Browser origins, besides the hub's own, that may use the API."),
    setting("hub.drain_s", number(0, 600), "10", "How long a stopping hub waits for running calls."),
    setting("hub.insecure_listen", Kind::Bool, "false", "Allow HTTP without TLS on an address other than loopback."),
    setting("hub.listen", Kind::Address, "127.0.0.1:7410", "The address to listen on."),
    setting("hub.log_level", Kind::Word(&["error", "warn", "info", "debug", "trace"]), "info", "The level of the log on standard error."),
    setting("hub.max_body_bytes", number(1024, 64 * MIB), "1048576", "Largest body of a request."),
    setting("hub.max_bytes_arriving", number(MIB, 4095 * MIB), "268435456", "Most bytes of large messages (over 64 KiB) of agents and clients that arrive at once; others wait, and are dropped after 20 seconds."),
    setting("hub.max_connections", number(16, 1_000_000), "18000", "Most open connections; others are closed at once."),
    setting("hub.max_concurrent_calls", number(1, 1_000_000), "10000", "Most calls that run at once; others are refused with `busy`."),
    setting("hub.public_url", Kind::MaybeUrl, "", "The address by which agents and people reach the hub, if it is not the listen address."),
    setting("hub.workers", number(0, 1024), "0", "Threads that serve connections; 0 for one fewer than processors, and at least one."),
    setting("kenny.agent_tokens", Kind::AgentTokens, "", "Legacy bearer tokens, as `id=token`; only with kenny.allow_token_auth."),
    setting("kenny.allow_token_auth", Kind::Bool, "false", "Accept agents that have only a bearer token (for a migration)."),
    setting("kenny.enrol_token_ttl_s", number(60, 30 * DAY_S), "3600", "How long an enrolment token is valid."),
    setting("kenny.heartbeat_s", number(1, 3600), "30", "Seconds between heartbeats; an agent is offline after three missed ones."),
    setting("kenny.log_lines_per_minute", number(1, 1_000_000), "600", "Log lines accepted from one agent a minute; more are dropped and counted."),
    setting("kenny.max_frame_bytes", number(65_536, 256 * MIB), "8388608", "Largest frame of an agent; a call whose answer is larger fails, at twice that the socket closes."),
    setting("kenny.max_telemetry_bytes", number(16_384, 64 * MIB), "262144", "Largest snapshot or log frame of an agent; a larger one is dropped and counted."),
    setting("kenny.max_handshakes", number(1, 1_000_000), "4096", "Most agents that may authenticate at once; others are told to try again."),
    setting("kenny.max_in_flight", number(1, 65_536), "1024", "Most calls that run on one agent at once."),
    setting("kenny.snapshots_per_minute", number(1, 1_000_000), "30", "Snapshots accepted from one agent a minute; more are dropped and counted."),
    setting("kenny.update_dir", Kind::Text, "", "Folder of agent binaries, named kenny-agent-VERSION-OS-ARCH, for `agents update`."),
    setting("kenny.update_link_ttl_s", number(10, DAY_S), "600", "How long a download link for an update is valid."),
    setting("mcp.max_result_bytes", number(4096, 16 * MIB), "262144", "Most bytes of a machine's answer that an assistant gets; cuts are marked."),
    setting("mcp.max_sessions", number(1, 100_000), "1000", "Most MCP sessions open at once; others are refused with `busy`."),
    setting("mcp.max_sessions_per_token", number(1, 100_000), "64", "Most MCP sessions of one token; a new one closes the longest unused."),
    setting("mcp.session_idle_s", number(10, 7 * DAY_S), "7200", "How long an unused MCP session stays open."),
    setting("retention.logs_days", number(0, 36_500), "30", "Days log lines are kept; 0 keeps them for ever."),
    setting("retention.messages_days", number(0, 36_500), "30", "Days messages are kept in the inbox; 0 keeps them for ever."),
    setting("retention.telemetry_days", number(0, 36_500), "30", "Days snapshots are kept; 0 keeps them for ever. Each agent's latest stays."),
    setting("rooms.frames_per_second", number(1, 1_000_000), "50", "Frames accepted from one participant of a room a second; more are dropped, and the sender is told."),
    setting("rooms.max_participants", number(1, 10_000), "200", "Most participants in one room; others are told that it is full."),
    setting("rooms.max_rooms", number(1, 100_000), "1000", "Most rooms."),
    setting("sonde.cache_s", number(0, 3600), "10", "How long a probe's result is shared with callers of the same probe; 0 runs the probe every time."),
    setting("sonde.changed_agents", Kind::Word(&["flag", "restrict", "refuse"]), "flag", "What happens to an agent whose attestation changed, until it is accepted: only flagged, its probes refused, or not admitted."),
    setting("sonde.enrol_token_ttl_s", number(10, 30 * DAY_S), "900", "How long a Sonde enrolment token is valid."),
    setting("sonde.heartbeat_s", number(1, 3600), "30", "Seconds between a Sonde agent's heartbeats; it is offline after three missed ones."),
    setting("sonde.latest_agent_version", Kind::Text, "", "The newest agent version; older agents are notified when they connect."),
    setting("sonde.max_frame_bytes", number(65_536, 64 * MIB), "1048576", "Largest message of a Sonde agent; a probe whose answer is larger fails, at twice that the socket closes."),
    setting("sonde.max_in_flight", number(1, 65_536), "256", "Most probes that run on one Sonde agent at once."),
    setting("sonde.runbook_dir", Kind::Text, "", "Folder of runbooks (TOML) besides the built-in ones."),
    setting("sonde.tls_listen", Kind::MaybeAddress, "", "Address of a second listener for Sonde agents, with mutual TLS against the hub's own CA."),
    setting("sonde.tls_names", Kind::List, "", "Host names and addresses by which agents reach sonde.tls_listen, for its certificate."),
    setting("store.accept_damaged_log", Kind::Bool, "false", "Where the database's write-ahead log or the journal's tail is damaged, keep a copy of it and start without what cannot be read. For one start."),
    setting("store.queue_limit", number(64, 1_000_000), "8192", "Most writes that may wait for the disk."),
    setting("store.tail", Kind::Bool, "true", "Answer a call once its record is in the journal's tail (hub.db-tail), and put it into the database a moment later. Only where the system has direct writes."),
    setting("tls.cert", Kind::Text, "", "The certificate chain for TLS (PEM)."),
    setting("tls.key", Kind::Text, "", "The certificate's private key (PEM)."),
    setting("tokens.calls_per_minute", number(0, 1_000_000), "0", "Calls a minute of one token without a limit in its scopes; 0 for no limit."),
    setting("tokens.concurrent_calls", number(0, 1_000_000), "2000", "Calls at once of one token without a limit in its scopes; 0 for no limit."),
    setting("yonexus.allow", Kind::List, "", "Identifiers of clients that may pair, besides those that operators add."),
    setting("yonexus.auth_timeout_s", number(1, 3600), "30", "How long a client may take to authenticate."),
    setting("yonexus.discord_admin_user", Kind::Text, "", "Discord user who gets pairing codes."),
    setting("yonexus.discord_base_url", Kind::Url, "https://discord.com/api/v10", "Address of Discord's API."),
    setting("yonexus.discord_bot_token", Kind::Secret, "", "Token of the Discord bot that sends pairing codes."),
    setting("yonexus.frames_per_second", number(1, 100_000_000), "5000", "Messages accepted from one client a second; more are dropped and counted, and the sender is told."),
    setting("yonexus.heartbeat_ack", Kind::Bool, "false", "Answer heartbeats."),
    setting("yonexus.inbox_max", number(1, 100_000_000), "100000", "Most messages kept in the inbox; the oldest are deleted."),
    setting("yonexus.max_clients", number(1, 1_000_000), "20000", "Most clients on the allow-list."),
    setting("yonexus.max_handshakes", number(1, 1_000_000), "1024", "Most clients that may pair or authenticate at once; others are told to try again."),
    setting("yonexus.max_pairings", number(1, 100_000), "100", "Most pairing codes that may be valid at once."),
    setting("yonexus.offline_after_s", number(1, DAY_S), "660", "Time without a heartbeat after which a client is offline and disconnected."),
    setting("yonexus.outbox_max_bytes", number(1024, 1024 * 1024 * MIB), "268435456", "Most bytes of messages that may wait for all clients together."),
    setting("yonexus.outbox_max_per_client", number(1, 1_000_000), "1000", "Most messages that may wait for one client."),
    setting("yonexus.pairing_ttl_s", number(60, 3600), "300", "How long a pairing code is valid."),
    setting("yonexus.status_watchers", Kind::List, "", "Clients that are notified when another's liveness changes; `*` for all."),
    setting("yonexus.unstable_after_s", number(1, DAY_S), "420", "Time without a heartbeat after which a client is unstable."),
    setting("yonexus.webhook_secret", Kind::Secret, "", "Secret that signs the requests to yonexus.webhook_url."),
    setting("yonexus.webhook_url", Kind::MaybeUrl, "", "Webhook that gets pairing codes."),
];
