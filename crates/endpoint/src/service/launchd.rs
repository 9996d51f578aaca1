//! The property list for launchd.

use super::Service;

/// Where it goes.
#[cfg_attr(not(target_os = "macos"), expect(dead_code, reason = "only launchd reads it"))]
pub(super) const PATH: &str = "/Library/LaunchDaemons/convoke-agent.plist";

/// The property list: started with the machine, and again whenever it ends.
pub fn plist(service: &Service) -> String {
    let program = service.program.display().to_string();
    let words = [program].into_iter().chain(service.arguments());
    let arguments: String = words.map(|word| format!("    <string>{}</string>\n", escaped(&word))).collect();
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <!DOCTYPE plist PUBLIC \"-//Apple//DTD PLIST 1.0//EN\" \"http://www.apple.com/DTDs/PropertyList-1.0.dtd\">\n\
         <plist version=\"1.0\">\n\
         <dict>\n\
         \x20 <key>Label</key>\n  <string>{}</string>\n\
         \x20 <key>ProgramArguments</key>\n  <array>\n{arguments}  </array>\n\
         \x20 <key>RunAtLoad</key>\n  <true/>\n\
         \x20 <key>KeepAlive</key>\n  <true/>\n\
         \x20 <key>ThrottleInterval</key>\n  <integer>2</integer>\n\
         \x20 <key>Umask</key>\n  <integer>63</integer>\n\
         \x20 <key>ProcessType</key>\n  <string>Background</string>\n\
         </dict>\n\
         </plist>\n",
        super::NAME
    )
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_an_argument_of_its_own() {
        let service = Service { program: "/opt/a&b/convoke".into(), state: "/Library/Application Support/x".into() };
        let list = plist(&service);
        assert!(list.contains("<string>/opt/a&amp;b/convoke</string>\n    <string>agent</string>"), "{list}");
        assert!(list.contains("<string>/Library/Application Support/x</string>"), "{list}");
    }
}
