//! Sessions: conversations in files, open under ids of this process.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`record`] | the lines of a session file |
//! | [`load`] | a file's lines as a conversation |
//! | [`file`] | a file that is open: appended to, locked against removal |
//! | [`folder`] | where session files are; removing them |
//! | [`list`] | the sessions of a workspace, as a tree |
//! | [`live`] | a session that is open |
//! | [`turn_lock`] | one turn at a time, over processes |
//! | [`compact`] | summaries in the place of old messages |
//! | [`export`] | a conversation for reading elsewhere |

pub(crate) mod compact;
pub(crate) mod cut;
pub(crate) mod doors;
pub(crate) mod export;
pub(crate) mod file;
pub(crate) mod folder;
pub(crate) mod list;
pub(crate) mod live;
pub(crate) mod load;
pub(crate) mod record;
pub(crate) mod scan;
pub(crate) mod turn_lock;
