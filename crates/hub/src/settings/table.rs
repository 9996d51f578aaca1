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
    setting("approvals.max_waiting", number(1, 100_000), "1000", "Most calls that may wait for a person at once; one more is refused."),
    setting("approvals.max_waiting_per_token", number(1, 100_000), "100", "Most calls of one token that may wait for a person at once; one more is refused with `limited`."),
    setting("approvals.ttl_s", number(1, 30 * DAY_S), "900", "How long a call waits for a person."),
    setting("calls.default_timeout_s", number(1, DAY_S), "30", "How long a call may take when nobody says."),
    setting("calls.grace_s", number(0, 300), "5", "Added to the agent's own time-out before the hub gives up."),
    setting("calls.max_answer_bytes_held", number(MIB, 4095 * MIB), "268435456", "Most bytes of large answers (over 64 KiB, counted twice) that are held for callers at once; a call whose answer finds no room fails with `busy`."),
    setting("calls.max_result_bytes_kept", number(0, 64 * MIB), "1048576", "Largest result kept for a later look at the call."),
    setting("calls.max_timeout_s", number(1, 7 * DAY_S), "3600", "Longest time-out a caller may ask for."),
    setting("hub.allowed_hosts", Kind::List, "", "Host names, besides its own address, that requests may name; `*` for any."),
    setting("hub.allowed_origins", Kind::Origins, "", "Browser origins, besides the hub's own, that may use the API."),
    setting("hub.drain_s", number(0, 600), "10", "How long running calls are waited for at a stop."),
    setting("hub.insecure_listen", Kind::Bool, "false", "Allow plain HTTP on an address other than loopback."),
    setting("hub.listen", Kind::Address, "127.0.0.1:7410", "The address everything is served on."),
    setting("hub.log_level", Kind::Word(&["error", "warn", "info", "debug", "trace"]), "info", "How much the hub tells on standard error."),
    setting("hub.max_body_bytes", number(1024, 64 * MIB), "1048576", "Largest body of a request."),
    setting("hub.max_bytes_arriving", number(MIB, 4095 * MIB), "268435456", "Most bytes of large messages (over 64 KiB) of agents and clients that come in at once; whoever sends one more waits, and is not heard after 20 seconds."),
    setting("hub.max_connections", number(16, 1_000_000), "18000", "Most open connections; one more is closed at once."),
    setting("hub.max_concurrent_calls", number(1, 1_000_000), "10000", "Most calls under way; one more is refused with `busy`."),
    setting("hub.public_url", Kind::MaybeUrl, "", "How agents and people reach the hub, where it is not the listen address."),
    setting("hub.workers", number(0, 1024), "0", "Threads that serve connections; 0 for one fewer than the machine has processors, and at least one."),
    setting("kenny.agent_tokens", Kind::AgentTokens, "", "Legacy bearer tokens, `id=token` each; only with kenny.allow_token_auth."),
    setting("kenny.allow_token_auth", Kind::Bool, "false", "Accept agents that only have a bearer token (the migration window)."),
    setting("kenny.enrol_token_ttl_s", number(60, 30 * DAY_S), "3600", "How long an enrolment token lives."),
    setting("kenny.heartbeat_s", number(1, 3600), "30", "Seconds between heartbeats; offline after three are missed."),
    setting("kenny.log_lines_per_minute", number(1, 1_000_000), "600", "Log lines taken from one agent a minute; more are dropped and counted."),
    setting("kenny.max_frame_bytes", number(65_536, 256 * MIB), "8388608", "Largest frame of an agent; a call whose answer is larger fails, at twice that the socket closes."),
    setting("kenny.max_telemetry_bytes", number(16_384, 64 * MIB), "262144", "Largest snapshot or log frame of an agent; a larger one is dropped and counted."),
    setting("kenny.max_handshakes", number(1, 1_000_000), "4096", "Most agents that may be proving themselves at once; one more is told to come again."),
    setting("kenny.max_in_flight", number(1, 65_536), "1024", "Most calls under way on one agent."),
    setting("kenny.snapshots_per_minute", number(1, 1_000_000), "30", "Snapshots taken from one agent a minute; more are dropped and counted."),
    setting("kenny.update_dir", Kind::Text, "", "Folder of agent binaries, named kenny-agent-VERSION-OS-ARCH, for `agents update`."),
    setting("kenny.update_link_ttl_s", number(10, DAY_S), "600", "How long a download link for an update lives."),
    setting("mcp.max_result_bytes", number(4096, 16 * MIB), "262144", "Most of a machine's answer an assistant is given; what is cut is marked."),
    setting("mcp.max_sessions", number(1, 100_000), "1000", "Most MCP sessions open at once; one more is refused with `busy`."),
    setting("mcp.max_sessions_per_token", number(1, 100_000), "64", "Most MCP sessions of one token; one more closes its longest unused."),
    setting("mcp.session_idle_s", number(10, 7 * DAY_S), "7200", "How long an MCP session lives that is not used."),
    setting("retention.logs_days", number(0, 36_500), "30", "Days log lines are kept; 0 keeps them for ever."),
    setting("retention.messages_days", number(0, 36_500), "30", "Days messages are kept in the inbox; 0 keeps them for ever."),
    setting("retention.telemetry_days", number(0, 36_500), "30", "Days snapshots are kept; 0 keeps them for ever. Each agent's latest stays."),
    setting("rooms.act_effect", Kind::Word(&["observe", "interact", "manage"]), "interact", "What an action asked for in a room counts as for rights and confirm rules."),
    setting("rooms.frames_per_second", number(1, 1_000_000), "50", "Frames taken from one participant of a room a second; more are dropped and told."),
    setting("rooms.max_participants", number(1, 10_000), "200", "Most participants in one room; one more is told that it is full."),
    setting("rooms.max_rooms", number(1, 100_000), "1000", "Most rooms."),
    setting("sonde.cache_s", number(0, 3600), "10", "How long a probe's result is given to others who ask the same; 0 asks the agent every time."),
    setting("sonde.changed_agents", Kind::Word(&["flag", "restrict", "refuse"]), "flag", "What becomes of an agent whose attestation changed, until it is accepted: only flagged, not asked, or not let in."),
    setting("sonde.enrol_token_ttl_s", number(10, 30 * DAY_S), "900", "How long a Sonde enrolment token lives."),
    setting("sonde.heartbeat_s", number(1, 3600), "30", "Seconds between a Sonde agent's heartbeats; offline after three are missed."),
    setting("sonde.latest_agent_version", Kind::Text, "", "The newest agent version; older agents are told of it when they connect."),
    setting("sonde.max_frame_bytes", number(65_536, 64 * MIB), "1048576", "Largest message of a Sonde agent; a probe whose answer is larger fails, at twice that the socket closes."),
    setting("sonde.max_in_flight", number(1, 65_536), "256", "Most probes under way on one Sonde agent."),
    setting("sonde.runbook_dir", Kind::Text, "", "Folder of runbooks (TOML) besides the built-in ones."),
    setting("sonde.tls_listen", Kind::MaybeAddress, "", "Address of a second listener for Sonde agents, with mutual TLS against the hub's own CA."),
    setting("sonde.tls_names", Kind::List, "", "Host names and addresses by which agents reach sonde.tls_listen, for its certificate."),
    setting("store.accept_damaged_log", Kind::Bool, "false", "Where the database's write-ahead log or the journal's tail is damaged, keep a copy of it and start without what cannot be read. For one start."),
    setting("store.queue_limit", number(64, 1_000_000), "8192", "Most writes that may wait for the disk."),
    setting("store.tail", Kind::Bool, "true", "Answer a call once its record is in the journal's tail (hub.db-tail), and put it into the database a moment later. Only where the system has direct writes."),
    setting("tls.cert", Kind::Text, "", "Certificate chain (PEM) to serve TLS with."),
    setting("tls.key", Kind::Text, "", "Its private key (PEM)."),
    setting("tokens.calls_per_minute", number(0, 1_000_000), "0", "Calls a minute of one token, where its scopes do not say; 0 for no limit."),
    setting("tokens.concurrent_calls", number(0, 1_000_000), "2000", "Calls under way of one token, where its scopes do not say; 0 for no limit."),
    setting("yonexus.allow", Kind::List, "", "Identifiers of clients that may pair, besides those that operators add."),
    setting("yonexus.auth_timeout_s", number(1, 3600), "30", "How long a client may take to prove itself."),
    setting("yonexus.discord_admin_user", Kind::Text, "", "Discord user who is told pairing codes."),
    setting("yonexus.discord_base_url", Kind::Url, "https://discord.com/api/v10", "Where Discord's API is."),
    setting("yonexus.discord_bot_token", Kind::Secret, "", "Token of the Discord bot that tells pairing codes."),
    setting("yonexus.frames_per_second", number(1, 100_000_000), "5000", "Messages taken from one client a second; more are dropped, counted, and told."),
    setting("yonexus.heartbeat_ack", Kind::Bool, "false", "Answer heartbeats."),
    setting("yonexus.inbox_max", number(1, 100_000_000), "100000", "Most messages kept in the inbox; beyond it the oldest go."),
    setting("yonexus.max_clients", number(1, 1_000_000), "20000", "Most clients on the allow-list."),
    setting("yonexus.max_handshakes", number(1, 1_000_000), "1024", "Most clients that may be pairing or proving themselves at once; one more is told to come again."),
    setting("yonexus.max_pairings", number(1, 100_000), "100", "Most codes that may be live at once."),
    setting("yonexus.offline_after_s", number(1, DAY_S), "660", "Without a heartbeat for so long a client is offline and disconnected."),
    setting("yonexus.outbox_max_bytes", number(1024, 1024 * 1024 * MIB), "268435456", "Most content that may wait for clients, over all of them."),
    setting("yonexus.outbox_max_per_client", number(1, 1_000_000), "1000", "Most messages that may wait for one client."),
    setting("yonexus.pairing_ttl_s", number(60, 3600), "300", "How long a pairing code lives."),
    setting("yonexus.status_watchers", Kind::List, "", "Clients that are told when another's liveness changes; `*` for all."),
    setting("yonexus.unstable_after_s", number(1, DAY_S), "420", "Without a heartbeat for so long a client is unstable."),
    setting("yonexus.webhook_secret", Kind::Secret, "", "What the calls of yonexus.webhook_url are signed with."),
    setting("yonexus.webhook_url", Kind::MaybeUrl, "", "Address that is told pairing codes."),
];
