//! The table itself.

use convoke_core::effect::Effect::{self, Interact, Manage, Observe};

use super::ArgKind::{self, Bool, Integer, OneOf, Text, TextList};
use super::{Arg, Tool};
use crate::version::ProtocolVersion;

/// Every tool, in the contract's order, newer ones after.
pub const TOOLS: &[Tool] = &[
    changes(
        "powershell_exec",
        "Runs a PowerShell script on the machine and returns its output. (On Linux, agents before 0.14 run it with sh, \
         later ones refuse it: use shell_exec there.)",
        Manage,
        &[required("script", Text, "The script."), TIMEOUT],
        "{stdout, stderr, exit_code}",
    )
    .destroys(),
    looks(
        "fs_list",
        "Lists a directory.",
        &[required("path", Text, "The directory.")],
        "{entries: [{name, is_dir, bytes}]}",
    ),
    looks(
        "fs_search",
        "Finds files below a directory whose name contains a text, whatever its case.",
        &[required("root", Text, "Where to start."), required("pattern", Text, "Part of the file name.")],
        "{matches: [path]}",
    ),
    looks(
        "fs_read",
        "Reads a text file. Long files come cut, and say so.",
        &[required("path", Text, "The file.")],
        "{content, truncated}",
    ),
    looks("fs_disk_usage", "Shows how full each volume is.", &[], "{volumes: [...]}"),
    looks(
        "winget_list",
        "Lists installed packages and the updates there are for them (Windows).",
        &[],
        "{packages: [{id, name, version, available}]}",
    ),
    changes("winget_install", "Installs a package (Windows).", Manage, &[PACKAGE], "{ok, log}").repeats(),
    changes("winget_uninstall", "Removes a package (Windows).", Manage, &[PACKAGE], "{ok, log}").repeats().destroys(),
    changes(
        "winget_update",
        "Updates one package, or all of them (Windows).",
        Interact,
        &[optional("id", Text, "The package; all of them if absent.")],
        "{ok, log}",
    )
    .repeats(),
    looks("diag_processes", "Lists running processes.", &[], "{processes: [{pid, name, cpu, mem_bytes}]}"),
    looks(
        "diag_services",
        "Lists services and their state.",
        &[optional("filter", Text, "Part of the service's name.")],
        "{services: [{name, display, status, start}]}",
    ),
    looks(
        "diag_eventlog",
        "Reads the newest entries of an event log.",
        &[required("log", Text, "The log, as in System."), required("count", Integer(1), "How many entries.")],
        "{events: [{time, level, source, message}]}",
    ),
    looks("diag_autostart", "Lists what starts by itself.", &[], "{entries: [{name, command, location}]}"),
    looks("net_config", "Shows network interfaces and name servers.", &[], "{interfaces: [...], dns: [...]}"),
    changes("net_dns_flush", "Empties the cache of resolved names.", Interact, &[], "{ok}").repeats(),
    changes(
        "net_adapter_reset",
        "Switches a network adapter off and on again. The tunnel may drop for a moment.",
        Interact,
        &[required("name", Text, "The adapter.")],
        "{ok}",
    )
    .repeats(),
    Tool {
        effect: Interact,
        ..looks("screen_capture", "Takes a picture of the person's screen.", &[], "{image_b64, format: \"png\"}")
    },
    looks(
        "remotehelp_status",
        "Tells whether a person at the machine could be helped through Quick Assist now.",
        &[],
        "{installed, version, internet_ok, interactive_session}",
    ),
    changes(
        "remotehelp_start",
        "Opens Quick Assist on the person's desktop. A helper must still give the code and the person must accept.",
        Interact,
        &[],
        "{launched, pid, note}",
    )
    .repeats(),
    changes("remotehelp_stop", "Ends Quick Assist.", Interact, &[], "{stopped}").repeats(),
    looks(
        "telemetry_collect",
        "Collects a fresh health snapshot, whole or in parts.",
        &[optional("sections", TextList, "Only these sections.")],
        "{<section>: {status, summary, ...}}",
    ),
    changes(
        "agent_update",
        "Has the agent replace itself with another version; it answers first and then restarts.",
        Manage,
        &[
            required("version", Text, "The version."),
            required("url", Text, "Where the program is."),
            required("sha256", Text, "Its SHA-256, in hexadecimal."),
        ],
        "{ok, staged_version}",
    )
    .takes(120)
    .repeats()
    .destroys(),
    looks(
        "webfilter_status",
        "Tells which list of blocked names is in force.",
        &[],
        "{active, entry_count, list_hash, doh_policy, applied_at, supported}",
    )
    .since(ProtocolVersion::V0_9),
    changes(
        "webfilter_apply",
        "Blocks a list of host names on the machine, in place of the list before.",
        Manage,
        &[
            required("domains", TextList, "Host names, at most 10 000."),
            required("doh_policy", OneOf(&["disable", "leave"]), "Whether browsers may go around it by DNS over HTTPS."),
            required("list_hash", Text, "The first 16 hexadecimal digits of the SHA-256 of the sorted list."),
        ],
        "{ok, applied, doh_policy_applied, list_hash, applied_at}",
    )
    .repeats()
    .since(ProtocolVersion::V0_9),
    changes("webfilter_clear", "Lifts the block.", Manage, &[], "{ok, removed_entries, doh_policy_cleared}")
        .repeats()
        .since(ProtocolVersion::V0_9),
    changes(
        "shell_exec",
        "Runs a command with sh on Linux or macOS and returns its output.",
        Manage,
        &[required("command", Text, "The command."), TIMEOUT],
        "{stdout, stderr, exit_code}",
    )
    .destroys()
    .since(ProtocolVersion::V0_14),
    changes(
        "account_set_enabled",
        "Lets a local account sign in, or no longer.",
        Manage,
        &[PRINCIPAL, required("enabled", Bool, "Whether it may.")],
        "{ok, principal, kind, enabled}",
    )
    .destroys()
    .repeats()
    .since(ProtocolVersion::V0_15),
    changes(
        "account_set_admin",
        "Makes a local account an administrator, or no longer.",
        Manage,
        &[PRINCIPAL, required("admin", Bool, "Whether it is one.")],
        "{ok, principal, kind, admin}",
    )
    .destroys()
    .repeats()
    .since(ProtocolVersion::V0_15),
    changes(
        "account_set_logon_rights",
        "Sets the ways in which a local account may not sign in.",
        Manage,
        &[PRINCIPAL, required("deny", TextList, "network, remote_interactive, both or none; replaces what was set.")],
        "{ok, principal, kind, deny}",
    )
    .destroys()
    .repeats()
    .since(ProtocolVersion::V0_15),
    changes(
        "account_create",
        "Creates a local account.",
        Manage,
        &[
            required("name", Text, "The account's name."),
            Arg { secret: true, ..required("password", Text, "Its password.") },
            optional("display_name", Text, "The name people see."),
            optional("admin", Bool, "Whether it is an administrator."),
        ],
        "{ok, principal, kind}",
    )
    .since(ProtocolVersion::V0_15),
    changes(
        "account_delete",
        "Deletes a local account, with or without its files.",
        Manage,
        &[PRINCIPAL, required("remove_profile", Bool, "Whether its files go, too.")],
        "{ok, principal, profile_removed}",
    )
    .destroys()
    .since(ProtocolVersion::V0_15),
    changes(
        "account_session_action",
        "Locks or ends the sessions of a local account.",
        Manage,
        &[
            PRINCIPAL,
            required("action", OneOf(&["lock", "logoff"]), "Which of the two."),
            optional("warn_seconds", Integer(0), "How long to warn the person before."),
        ],
        "{ok, principal, action, sessions}",
    )
    .takes(120)
    .destroys()
    .since(ProtocolVersion::V0_15),
    changes(
        "password_policy_set",
        "Changes the machine's rules for passwords of local accounts; what is absent stays.",
        Manage,
        &[
            optional("min_length", Integer(0), "Shortest password."),
            optional("max_age_days", Integer(0), "Days until a password must change."),
            optional("lockout_threshold", Integer(0), "Wrong attempts until an account locks."),
        ],
        "{ok, applies_to, policy}",
    )
    .destroys()
    .repeats()
    .since(ProtocolVersion::V0_15),
];

/// Our own addition, of agents that announce [`super::FEATURE_FILES`]: a file comes and goes over a link that the hub
/// makes for the call. No tools of the catalogue: only the hub can name such a link.
pub const FILES: &[Tool] = &[
    Tool {
        least_s: 600,
        ..looks(
            super::FILE_GET,
            "Sends a file from the machine over a link of the hub.",
            &[required("path", Text, "The file."), LINK],
            "{size, sha256}",
        )
    },
    Tool {
        least_s: 600,
        ..changes(
            super::FILE_PUT,
            "Writes a file on the machine from a link of the hub. A file of that name is replaced as a whole.",
            Manage,
            &[
                required("path", Text, "The file, with its whole path."),
                LINK,
                required("sha256", Text, "The SHA-256 of its contents, in hex."),
                required("size", Integer(0), "Its size in bytes."),
            ],
            "{size, sha256}",
        )
        .destroys()
        .repeats()
    },
];

const LINK: Arg = required("url", Text, "The link.");

/// The contract lists `timeout_s` without a question mark, but its servers leave it out where nobody gave it, and so does the hub:
/// then its own deadline holds, and the agent's command has none.
const TIMEOUT: Arg = optional("timeout_s", Integer(1), "Seconds until the agent gives up.");
const PACKAGE: Arg = required("id", Text, "The package, as winget names it.");
const PRINCIPAL: Arg = required("principal", Text, "The account's name.");

const fn required(name: &'static str, kind: ArgKind, doc: &'static str) -> Arg {
    Arg { name, kind, required: true, secret: false, doc }
}

const fn optional(name: &'static str, kind: ArgKind, doc: &'static str) -> Arg {
    Arg { required: false, ..required(name, kind, doc) }
}

/// A tool that reads and changes nothing.
const fn looks(name: &'static str, doc: &'static str, args: &'static [Arg], result: &'static str) -> Tool {
    Tool {
        name,
        doc,
        effect: Observe,
        mutating: false,
        idempotent: true,
        destructive: false,
        args,
        result,
        least_s: 0,
        since: ProtocolVersion::V0_8,
    }
}

/// A tool that the kill switch refuses.
const fn changes(
    name: &'static str,
    doc: &'static str,
    effect: Effect,
    args: &'static [Arg],
    result: &'static str,
) -> Tool {
    Tool { effect, mutating: true, idempotent: false, ..looks(name, doc, args, result) }
}

impl Tool {
    const fn repeats(self) -> Self {
        Self { idempotent: true, ..self }
    }

    const fn destroys(self) -> Self {
        Self { destructive: true, ..self }
    }

    const fn takes(self, least_s: u32) -> Self {
        Self { least_s, ..self }
    }

    const fn since(self, since: ProtocolVersion) -> Self {
        Self { since, ..self }
    }
}
