//! The pack `nginx`, besides its logs.

use serde_json::{Value, json};

use crate::{Context, ProbeError};

pub(crate) async fn test(cx: &Context<'_>) -> Result<Value, ProbeError> {
    let output = cx.run("nginx", &["-t"]).await?;
    // What nginx has to say it says on standard error, good or bad.
    let text = format!("{}{}", output.stderr, output.stdout);
    Ok(json!({ "valid": output.success(), "output": text.trim() }))
}
