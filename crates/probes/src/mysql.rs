//! The pack `mysql`, for MySQL and MariaDB.

use serde_json::{Map, Value, json};

use crate::context::{needed, number};
use crate::{Context, ProbeError};

pub(crate) async fn databases(cx: &Context<'_>, params: &Map<String, Value>) -> Result<Value, ProbeError> {
    let sql = "SELECT s.schema_name, COUNT(t.table_name), \
        ROUND(COALESCE(SUM(t.data_length + t.index_length), 0) / 1048576, 2) FROM information_schema.schemata s \
        LEFT JOIN information_schema.tables t ON t.table_schema = s.schema_name GROUP BY s.schema_name ORDER BY s.schema_name LIMIT 500";
    let rows = query(cx, params, sql).await?;
    let databases: Vec<Value> = rows
        .iter()
        .map(|row| json!({ "name": row.text(0), "tables": row.number(1), "sizeMb": row.number(2) }))
        .collect();
    Ok(json!({ "count": databases.len(), "databases": databases }))
}

pub(crate) async fn processes(cx: &Context<'_>, params: &Map<String, Value>) -> Result<Value, ProbeError> {
    let sql = "SELECT ID, USER, HOST, DB, COMMAND, TIME, STATE, LEFT(INFO, 2000) FROM information_schema.PROCESSLIST \
        WHERE ID <> CONNECTION_ID() ORDER BY ID LIMIT 500";
    let rows = query(cx, params, sql).await?;
    let processes: Vec<Value> = rows
        .iter()
        .map(|row| {
            json!({
                "id": row.number(0), "user": row.text(1), "host": row.text(2), "db": row.text(3),
                "command": row.text(4), "time": row.number(5), "state": row.text(6), "info": row.text(7),
            })
        })
        .collect();
    Ok(json!({ "count": processes.len(), "processes": processes }))
}

pub(crate) async fn status(cx: &Context<'_>, params: &Map<String, Value>) -> Result<Value, ProbeError> {
    let rows = query(cx, params, "SHOW GLOBAL STATUS").await?;
    let variables: Map<String, Value> =
        rows.iter().filter_map(|row| Some((row.0.first()?.clone()?, row.text(1)))).collect();
    let counter = |name: &str| variables.get(name).and_then(Value::as_str).and_then(|t| t.parse::<u64>().ok());
    let (uptime, questions) = (counter("Uptime"), counter("Questions"));
    let average =
        uptime.zip(questions).filter(|(u, _)| *u > 0).map(|(u, q)| (q as f64 / u as f64 * 1000.0).round() / 1000.0);
    Ok(json!({
        "uptime": uptime, "threads": counter("Threads_connected"), "questions": questions,
        "slowQueries": counter("Slow_queries"), "opens": counter("Opened_tables"), "openTables": counter("Open_tables"),
        "queriesPerSecondAvg": average, "variables": variables,
    }))
}

struct Row(Vec<Option<String>>);

impl Row {
    fn text(&self, at: usize) -> Value {
        self.0.get(at).cloned().flatten().map_or(Value::Null, Value::from)
    }

    fn number(&self, at: usize) -> Value {
        let text = self.0.get(at).cloned().flatten();
        let whole = text.as_ref().and_then(|t| t.parse::<i64>().ok().map(Value::from));
        whole.or_else(|| text.and_then(|t| t.parse::<f64>().ok()).map(Value::from)).unwrap_or_default()
    }
}

async fn query(cx: &Context<'_>, params: &Map<String, Value>, sql: &str) -> Result<Vec<Row>, ProbeError> {
    let host = needed(params, "host")?;
    cx.check_host(host)?;
    let program = if cx.program("mysql").is_some() { "mysql" } else { "mariadb" };
    let args = [
        format!("--host={host}"),
        format!("--port={}", number(params, "port", 3306)),
        format!("--user={}", needed(params, "user")?),
        "--connect-timeout=10".into(),
        "--batch".into(),
        "--skip-column-names".into(),
        format!("--execute={sql}"),
    ];
    let text = cx.output(program, &args).await?;
    Ok(text.lines().map(row).collect())
}

/// One line of `--batch`: columns between tabs, with tabs, newlines and backslashes escaped.
fn row(line: &str) -> Row {
    let column = |text: &str| {
        if text == "NULL" {
            return None;
        }
        let mut out = String::with_capacity(text.len());
        let mut chars = text.chars();
        while let Some(c) = chars.next() {
            match (c, c == '\\') {
                (_, true) => match chars.next() {
                    Some('t') => out.push('\t'),
                    Some('n') => out.push('\n'),
                    Some('0') => out.push('\0'),
                    Some(other) => out.push(other),
                    None => out.push('\\'),
                },
                (c, false) => out.push(c),
            }
        }
        Some(out)
    };
    Row(line.split('\t').map(column).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_line_with_everything_in_it() {
        let row = row("7\tNULL\ta\\tb\\nc\\\\d\t1.50\t");
        assert_eq!(
            row.0,
            [Some("7".into()), None, Some("a\tb\nc\\d".into()), Some("1.50".into()), Some(String::new())]
        );
        assert_eq!((row.number(0), row.number(3), row.number(1)), (json!(7), json!(1.5), Value::Null));
    }
}
