//! Where programs take their secrets, when no name says so.

/// How one of a program's words is, or has, a secret.
///
/// | written | means |
/// | --- | --- |
/// | `-p` | the word behind `-p`, or the rest of `-pX` |
/// | `-p*` | the rest of `-pX` alone |
/// | `-pw_` | the word behind `-pw` alone |
/// | `-u:` `-U%` `-u,` `-x/` | of that word, what is behind the first `:`, `%`, `,` or `/` |
/// | `+login` | the first word behind `login` that is no option |
/// | `+add_user2` | the second one |
/// | `+2` | the second word of the program that is no option |
/// | `$` | the last word |
/// | `==` | the values of all `name=value` |
pub(super) struct Program {
    /// What it is called, without a path and in lower case.
    pub(super) names: &'static [&'static str],
    /// A word that must be among its words.
    pub(super) needs: Option<&'static str>,
    pub(super) secrets: &'static [&'static str],
}

const fn program(
    names: &'static [&'static str],
    needs: Option<&'static str>,
    secrets: &'static [&'static str],
) -> Program {
    Program { names, needs, secrets }
}

pub(super) const PROGRAMS: &[Program] = &[
    // Databases
    program(
        &["mysql", "mariadb", "mysqldump", "mysqladmin", "mysqlimport", "mysqlcheck", "mysqlshow", "mysqlslap"],
        None,
        &["-p*"],
    ),
    program(&["mariadb-dump", "mariadb-admin", "mariadb-backup", "mariadb-import", "xtrabackup"], None, &["-p*"]),
    program(&["mysqladmin", "mariadb-admin"], Some("password"), &["+password"]),
    program(&["mongo", "mongosh", "mongodump", "mongorestore", "mongoexport", "mongoimport"], None, &["-p"]),
    program(&["redis-cli", "valkey-cli"], None, &["-a"]),
    program(&["sqlcmd", "bcp", "isql"], None, &["-P"]),
    program(&["cqlsh"], None, &["-p"]),
    program(&["sqlplus", "rman", "expdp", "impdp", "sqlldr"], None, &["+1/", "+2/"]),
    program(&["rabbitmqctl"], Some("add_user"), &["+add_user2"]),
    program(&["rabbitmqctl"], Some("change_password"), &["+change_password2"]),
    program(&["etcdctl"], None, &["--user:"]),
    program(&["mosquitto_pub", "mosquitto_sub"], None, &["-P"]),
    program(&["mosquitto_passwd"], Some("-b"), &["$"]),
    // The web
    program(
        &["curl"],
        None,
        &["-u:", "--user:", "-U:", "--proxy-user:", "--oauth2-bearer_", "--pass_", "--proxy-pass_", "--cookie="],
    ),
    program(&["curl"], None, &["-b=", "-E:", "--cert:"]),
    program(&["http", "https", "xh", "httpie"], None, &["-a:", "--auth:"]),
    program(&["htpasswd"], Some("-b"), &["$"]),
    program(&["lftp"], None, &["-u,"]),
    program(&["ncftpput", "ncftpget", "ncftpls"], None, &["-p"]),
    // Accounts
    program(&["sshpass"], None, &["-p"]),
    program(&["usermod", "useradd"], None, &["-p"]),
    program(&["mkpasswd"], None, &["+1"]),
    program(&["openssl"], None, &["-k_", "-K_"]),
    program(&["openssl"], Some("passwd"), &["+passwd"]),
    program(&["ssh-keygen"], None, &["-N", "-P"]),
    program(&["ldapsearch", "ldapadd", "ldapmodify", "ldapdelete", "ldapwhoami", "ldapcompare"], None, &["-w"]),
    program(&["ldappasswd"], None, &["-w", "-s", "-a"]),
    program(&["smbclient", "rpcclient", "net", "wbinfo", "smbget", "smbcacls"], None, &["-U%", "--user%", "-a%"]),
    program(&["dscl"], Some("-passwd"), &["$"]),
    program(&["security"], None, &["-w_", "-p_", "-P_"]),
    program(&["oathtool"], None, &["$"]),
    program(&["psexec", "psexec64"], None, &["-p"]),
    program(&["putty", "plink", "pscp", "psftp"], None, &["-pw_"]),
    program(&["rdesktop"], None, &["-p"]),
    program(&["xfreerdp", "wfreerdp", "sdl-freerdp"], None, &["/p:"]),
    program(&["schtasks"], None, &["/rp_", "/p_"]),
    program(&["convertto-securestring"], None, &["+1"]),
    // Archives
    program(&["zip", "unzip", "zipcloak"], None, &["-P"]),
    program(&["7z", "7za", "7zr", "7zz"], None, &["-p*"]),
    program(&["rar", "unrar"], None, &["-p*", "-hp*"]),
    program(&["ansible-vault"], Some("encrypt_string"), &["+encrypt_string"]),
    program(&["rclone"], Some("obscure"), &["+obscure"]),
    // Networks
    program(&["wpa_passphrase"], None, &["+2"]),
    program(&["nmcli"], None, &["+password", "+wifi-sec.psk", "+802-11-wireless-security.psk", "+wep-key0"]),
    program(&["iwconfig"], Some("key"), &["+key"]),
    program(&["networksetup"], Some("-setairportnetwork"), &["$"]),
    program(&["ipmitool"], None, &["-P"]),
    program(&["snmpwalk", "snmpget", "snmpset", "snmpbulkwalk"], None, &["-c", "-A", "-X"]),
    // Registries, clouds and their tools
    program(
        &["docker", "podman", "nerdctl", "buildah", "skopeo", "helm", "oras", "oc", "az", "crane"],
        Some("login"),
        &["-p"],
    ),
    program(&["skopeo", "podman", "buildah"], None, &["--creds:", "--src-creds:", "--dest-creds:"]),
    program(&["twine"], Some("upload"), &["-p"]),
    program(&["nuget", "dotnet"], Some("setapikey"), &["+setapikey"]),
    program(&["nuget", "dotnet"], Some("push"), &["-k"]),
    program(&["nuget", "dotnet"], Some("source"), &["-p"]),
    program(&["choco"], Some("apikey"), &["-k"]),
    program(&["cargo"], Some("login"), &["+login"]),
    program(&["composer"], Some("config"), &["$"]),
    program(&["doctl"], Some("auth"), &["-t"]),
    program(&["gh"], Some("secret"), &["-b", "--body_", "--body*"]),
    program(&["fly", "flyctl"], Some("secrets"), &["=="]),
    program(&["heroku"], Some("config:set"), &["=="]),
    program(&["kubectl", "oc"], Some("secret"), &["--from-literal="]),
    program(&["aws"], Some("put-parameter"), &["--value_", "--value*"]),
    program(&["az"], Some("secret"), &["--value_", "--value*"]),
    program(&["mc", "mcli"], Some("alias"), &["+set3", "+set4"]),
    program(&["vault", "bao"], Some("login"), &["+login"]),
    program(&["vault", "bao"], Some("unseal"), &["+unseal"]),
    program(&["bw"], Some("unlock"), &["+unlock"]),
    program(&["bw"], Some("login"), &["+login2"]),
];

/// Programs that read a secret from their input.
pub(super) const READ_SECRET: &[&str] =
    &["passwd", "chpasswd", "smbpasswd", "vncpasswd", "kinit", "cryptsetup", "su"];

/// Options that make any program read a secret from its input.
pub(super) const READ_SECRET_OPTIONS: &[&str] = &[
    "--password-stdin",
    "--pass-stdin",
    "--stdin",
    "--with-token",
    "--token-stdin",
    "--passphrase-fd",
    "--vault-password-file=/dev/stdin",
    "--stdin-password",
    "pass:stdin",
    "stdin",
];
