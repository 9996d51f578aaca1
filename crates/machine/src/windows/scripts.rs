//! The scripts. Each prints one value as JSON and nothing else. Times are RFC 3339 in UTC.

/// Before every script: quiet, in UTF-8, and with two functions for times and lists.
pub(super) const PRELUDE: &str = r#"$ErrorActionPreference='SilentlyContinue';$ProgressPreference='SilentlyContinue';$WarningPreference='SilentlyContinue'
[Console]::OutputEncoding=New-Object System.Text.UTF8Encoding $false
function T($t){if($t){([datetime]$t).ToUniversalTime().ToString('yyyy-MM-ddTHH:mm:ssZ')}}
function J($v){ConvertTo-Json -InputObject $v -Compress -Depth 5}
"#;

/// The script that collects a section.
pub(super) fn section(name: &str) -> Option<&'static str> {
    SECTIONS.iter().find(|(section, _)| *section == name).map(|(_, script)| *script)
}

const SECTIONS: &[(&str, &str)] = &[
    ("disk", VOLUMES),
    (
        "peripherals",
        r#"J @(Get-CimInstance Win32_PnPEntity|?{$_.PNPClass -in 'Keyboard','Mouse','Camera','Image','Bluetooth','AudioEndpoint','MEDIA','Monitor','Printer','Net','USB','HIDClass','Display','DiskDrive' -and ($_.Present -or $_.ConfigManagerErrorCode)}|select -First 200 Name,PNPClass,ConfigManagerErrorCode)"#,
    ),
    ("network", NETWORK),
    (
        "routing",
        r#"J @(Get-NetRoute|?{$_.State -ne 'Dead' -and $_.DestinationPrefix -notlike 'ff*'}|sort {$_.DestinationPrefix -notin '0.0.0.0/0','::/0'}|select -First 200 DestinationPrefix,NextHop,InterfaceAlias,@{n='Metric';e={$_.RouteMetric+$_.InterfaceMetric}})"#,
    ),
    ("processes", PROCESSES),
    ("services", SERVICES),
    (
        "defender",
        r#"$s=Get-MpComputerStatus;if($s){$q=$s.QuickScanEndTime;$f=$s.FullScanEndTime;$full=($f -and (!$q -or $f -gt $q));J @{enabled=$s.AntivirusEnabled;realtime=$s.RealTimeProtectionEnabled;last_scan=T $(if($full){$f}else{$q});last_scan_type=$(if($full){'full'}elseif($q){'quick'});signatures=T $s.AntivirusSignatureLastUpdated;threats=@(Get-MpThreat|?{$_.IsActive}).Count;reboot=$s.RebootRequired;mode=$s.AMRunningMode}}"#,
    ),
    (
        "win_update",
        r#"$u=New-Object -ComObject Microsoft.Update.Session;$s=$u.CreateUpdateSearcher();$n=$s.GetTotalHistoryCount();$h=@();if($n -gt 0){$h=@($s.QueryHistory(0,[Math]::Min($n,20))|?{$_.Title}|%{@{title=$_.Title;result=[int]$_.ResultCode;at=T $_.Date}})};$a=(New-Object -ComObject Microsoft.Update.AutoUpdate).Results;J @{last_check=T $a.LastSearchSuccessDate;recent=$h}"#,
    ),
    (
        "disk_smart",
        r#"J @(Get-PhysicalDisk|%{$r=$_|Get-StorageReliabilityCounter;@{model=$_.FriendlyName;health=[string]$_.HealthStatus;wear=$r.Wear;temperature=$r.Temperature;hours=$r.PowerOnHours}})"#,
    ),
    (
        "battery",
        r#"$b=Get-CimInstance Win32_Battery|select -First 1;if($b){$d=(Get-CimInstance -Namespace root/wmi BatteryStaticData|measure DesignedCapacity -Sum).Sum;$f=(Get-CimInstance -Namespace root/wmi BatteryFullChargedCapacity|measure FullChargedCapacity -Sum).Sum;J @{charge=$b.EstimatedChargeRemaining;status=$b.BatteryStatus;full=$f;design=$d}}"#,
    ),
    (
        "memory",
        r#"$o=Get-CimInstance Win32_OperatingSystem;$p=Get-CimInstance Win32_PageFileUsage;J @{total=[uint64]$o.TotalVisibleMemorySize*1024;free=[uint64]$o.FreePhysicalMemory*1024;swap_total=[uint64](($p|measure AllocatedBaseSize -Sum).Sum)*1MB;swap_used=[uint64](($p|measure CurrentUsage -Sum).Sum)*1MB}"#,
    ),
    (
        "thermals",
        r#"J @(Get-CimInstance -Namespace root/wmi MSAcpi_ThermalZoneTemperature|select InstanceName,CurrentTemperature)"#,
    ),
    (
        "firewall",
        r#"J @(Get-NetFirewallProfile|%{@{name=$_.Name;enabled=[bool]($_.Enabled -eq 'True' -or $_.Enabled -eq 1)}})"#,
    ),
    (
        "encryption",
        r#"J @(Get-CimInstance -Namespace root/cimv2/Security/MicrosoftVolumeEncryption Win32_EncryptableVolume|?{$_.DriveLetter}|%{@{mount=$_.DriveLetter;protection=$_.ProtectionStatus;system=($_.DriveLetter -eq $env:SystemDrive)}})"#,
    ),
    (
        "av_thirdparty",
        r#"J @(Get-CimInstance -Namespace root/SecurityCenter2 AntiVirusProduct|?{$_.displayName -notmatch 'Defender'}|select displayName,productState)"#,
    ),
    (
        "defender_quarantine",
        r#"J @(Get-MpThreatDetection|?{$_.CurrentThreatExecutionStatusID -ne $null -and $_.CleaningActionID -eq 2}|select -First 50|%{$t=Get-MpThreat -ThreatID $_.ThreatID;@{name=$t.ThreatName;at=T $_.InitialDetectionTime}})"#,
    ),
    (
        "reboot_pending",
        r#"$r=@();if(Test-Path 'HKLM:\SOFTWARE\Microsoft\Windows\CurrentVersion\Component Based Servicing\RebootPending'){$r+='component servicing'};if(Test-Path 'HKLM:\SOFTWARE\Microsoft\Windows\CurrentVersion\WindowsUpdate\Auto Update\RebootRequired'){$r+='Windows Update'};if((Get-ItemProperty 'HKLM:\SYSTEM\CurrentControlSet\Control\Session Manager').PendingFileRenameOperations){$r+='files to be replaced'};if((Get-ItemProperty 'HKLM:\SYSTEM\CurrentControlSet\Control\ComputerName\ActiveComputerName').ComputerName -ne (Get-ItemProperty 'HKLM:\SYSTEM\CurrentControlSet\Control\ComputerName\ComputerName').ComputerName){$r+='a new computer name'};J @{reasons=$r}"#,
    ),
    (
        "os_support",
        r#"$o=Get-CimInstance Win32_OperatingSystem;$v=Get-ItemProperty 'HKLM:\SOFTWARE\Microsoft\Windows NT\CurrentVersion';J @{name=$o.Caption;version=$v.DisplayVersion;build=$o.BuildNumber;edition=$v.EditionID;type=$v.InstallationType;arch=$env:PROCESSOR_ARCHITECTURE}"#,
    ),
    (
        "reliability",
        r#"$i=(Get-CimInstance Win32_ReliabilityStabilityMetrics|sort TimeGenerated|select -Last 1).SystemStabilityIndex;$e=@(Get-WinEvent -MaxEvents 2000 -FilterHashtable @{LogName='System','Application';Level=1,2;StartTime=(Get-Date).AddDays(-7)}|%{@{source=$_.ProviderName;id=$_.Id;level=$_.Level;at=T $_.TimeCreated;message=([string]$_.Message).Substring(0,[Math]::Min(300,([string]$_.Message).Length))}});J @{index=$i;events=$e}"#,
    ),
    ("app_updates", WINGET_UPGRADES),
    (
        "uptime",
        r#"$o=Get-CimInstance Win32_OperatingSystem;J @{boot=[int64](([datetime]$o.LastBootUpTime).ToUniversalTime()-[datetime]'1970-01-01').TotalSeconds;now=[int64]([datetime]::UtcNow-[datetime]'1970-01-01').TotalSeconds}"#,
    ),
    (
        "time_sync",
        r#"$s=(Get-Service W32Time).Status;$q=w32tm /query /status /verbose 2>$null|Out-String;$src=w32tm /query /source 2>$null|Out-String;J @{service=[string]$s;status=$q;source=$src.Trim()}"#,
    ),
    ("printers", r#"J @(Get-Printer|select -First 100|%{@{name=$_.Name;status=[string]$_.PrinterStatus}})"#),
    ("wifi_quality", r#"J @{text=(netsh wlan show interfaces|Out-String)}"#),
    ("autostart", AUTOSTART),
];

pub(super) const VOLUMES: &str =
    "J @(Get-CimInstance Win32_LogicalDisk -Filter 'DriveType=3'|select DeviceID,Size,FreeSpace)";

/// The largest directories of the fixed disks down to depth four, each with all that is below it: a look of at most
/// 200 000 entries or 3 s, from the top down, that follows no links.
pub(super) const TOP_DIRS: &str = r#"$q=New-Object 'System.Collections.Generic.Queue[object]';Get-CimInstance Win32_LogicalDisk -Filter 'DriveType=3'|%{$q.Enqueue([Tuple]::Create([string]($_.DeviceID+'\'),[string[]]@()))};$b=@{};$n=0;$all=$true;$w=[Diagnostics.Stopwatch]::StartNew();while($q.Count -and $all){$t=$q.Dequeue();try{foreach($e in (New-Object IO.DirectoryInfo $t.Item1).EnumerateFileSystemInfos()){$n++;if($n -gt 200000 -or $w.ElapsedMilliseconds -gt 3000){$all=$false;break};if([int]$e.Attributes -band 1024){continue};if($e -is [IO.DirectoryInfo]){$u=$t.Item2;if($u.Length -lt 4){$u=[string[]]($u+$e.FullName)};$q.Enqueue([Tuple]::Create([string]$e.FullName,[string[]]$u))}else{foreach($p in $t.Item2){$b[$p]=[int64]$b[$p]+$e.Length}}}}catch{}};J @{dirs=@($b.GetEnumerator()|sort Value -Descending|select -First 10|%{@{path=$_.Key;bytes=$_.Value}});complete=$all}"#;

pub(super) const NETWORK: &str = r#"$a=@(Get-NetAdapter -IncludeHidden:$false|%{$n=$_;@{name=$n.Name;mac=($n.MacAddress -replace '-',':').ToLower();up=($n.Status -eq 'Up');ips=@(Get-NetIPAddress -InterfaceIndex $n.ifIndex|%{"$($_.IPAddress -replace '%.*$','')/$($_.PrefixLength)"})}});$d=@(Get-DnsClientServerAddress|%{$_.ServerAddresses}|select -Unique);J @{interfaces=$a;dns=$d}"#;

/// The counters are those of one interval of a second, in per cent of one processor.
pub(super) const PROCESSES: &str = r#"J @(Get-CimInstance Win32_PerfFormattedData_PerfProc_Process|?{$_.IDProcess -ne 0 -and $_.Name -ne '_Total'}|select IDProcess,Name,PercentProcessorTime,WorkingSet)"#;

pub(super) const SERVICES: &str =
    "J @(Get-CimInstance Win32_Service|select Name,DisplayName,State,StartMode,ExitCode,DelayedAutoStart)";

pub(super) const AUTOSTART: &str = r#"$e=@(Get-CimInstance Win32_StartupCommand|%{@{name=$_.Name;command=$_.Command;location=$_.Location}});$e+=@(Get-ScheduledTask|?{$_.State -ne 'Disabled' -and $_.TaskPath -notlike '\Microsoft\*' -and @($_.Triggers|?{$_.CimClass.CimClassName -in 'MSFT_TaskLogonTrigger','MSFT_TaskBootTrigger'}).Count}|%{@{name=$_.TaskName;command=(@($_.Actions|%{"$($_.Execute) $($_.Arguments)".Trim()}) -join '; ');location="task $($_.TaskPath)"}});J @($e|select -First 500)"#;

/// `ARG_LOG` and `ARG_COUNT`.
pub(super) const EVENTS: &str = r#"if(-not(Get-WinEvent -ListLog $env:ARG_LOG)){J @{missing=$true};exit};J @{events=@(Get-WinEvent -LogName $env:ARG_LOG -MaxEvents ([int]$env:ARG_COUNT)|%{$m=[string]$_.Message;@{time=T $_.TimeCreated;level=[int]$_.Level;source=$_.ProviderName;message=$m.Substring(0,[Math]::Min(2000,$m.Length))}})}"#;

pub(super) const DNS_FLUSH: &str = "Clear-DnsClientCache;J @{ok=$?}";

/// `ARG_NAME`, compared and not matched: the cmdlet's own `-Name` takes wildcards.
pub(super) const ADAPTER_RESET: &str = r#"$a=Get-NetAdapter|?{$_.Name -eq $env:ARG_NAME};if(-not $a){J @{missing=$true};exit};$a|Restart-NetAdapter -Confirm:$false;J @{ok=$?;error=[string]$Error[0]}"#;

/// A service has no desktop: there the script says so.
pub(super) const SCREEN: &str = r#"if((Get-Process -Id $PID).SessionId -eq 0){J @{session0=$true};exit};Add-Type -AssemblyName System.Windows.Forms,System.Drawing;$b=[Windows.Forms.SystemInformation]::VirtualScreen;$i=New-Object Drawing.Bitmap $b.Width,$b.Height;$g=[Drawing.Graphics]::FromImage($i);$g.CopyFromScreen($b.Location,[Drawing.Point]::Empty,$b.Size);$m=New-Object IO.MemoryStream;$i.Save($m,[Drawing.Imaging.ImageFormat]::Png);J @{png=[Convert]::ToBase64String($m.ToArray())}"#;

/// winget is an app of a person; a service finds it among all apps.
const WINGET: &str = r#"$w=(Get-Command winget).Source;if(-not $w){$w=(Resolve-Path "$env:ProgramFiles\WindowsApps\Microsoft.DesktopAppInstaller_*__8wekyb3d8bbwe\winget.exe"|select -Last 1).Path};if(-not $w){J @{missing=$true};exit};"#;
const WINGET_RUN: &str =
    r#"$o=&$w @a --disable-interactivity --accept-source-agreements 2>&1|Out-String;J @{text=$o;code=$LASTEXITCODE}"#;

/// winget's arguments, by the name of the tool. `ARG_ID` is the package, which was checked.
pub(super) fn winget(tool: &str) -> Option<String> {
    let arguments = match tool {
        "winget_list" => "$a='list';",
        "winget_install" => "$a='install','--exact','--id',$env:ARG_ID,'--silent','--accept-package-agreements';",
        "winget_uninstall" => "$a='uninstall','--exact','--id',$env:ARG_ID,'--silent';",
        "winget_update" => {
            "if($env:ARG_ID){$a='upgrade','--exact','--id',$env:ARG_ID}else{$a='upgrade','--all'};$a+='--silent','--accept-package-agreements';"
        }
        _ => return None,
    };
    Some(format!("{WINGET}{arguments}{WINGET_RUN}"))
}

const WINGET_UPGRADES: &str = r#"$w=(Get-Command winget).Source;if(-not $w){$w=(Resolve-Path "$env:ProgramFiles\WindowsApps\Microsoft.DesktopAppInstaller_*__8wekyb3d8bbwe\winget.exe"|select -Last 1).Path};if(-not $w){J @{missing=$true};exit};$o=&$w upgrade --disable-interactivity --accept-source-agreements 2>&1|Out-String;J @{text=$o;code=$LASTEXITCODE}"#;

pub(super) const HELP_STATUS: &str = r#"$p=Get-AppxPackage -AllUsers MicrosoftCorporationII.QuickAssist|select -Last 1;if(-not $p){$p=Get-AppxPackage MicrosoftCorporationII.QuickAssist|select -Last 1};$n=(Get-NetConnectionProfile|?{$_.IPv4Connectivity -eq 'Internet' -or $_.IPv6Connectivity -eq 'Internet'});J @{installed=[bool]$p;version=[string]$p.Version;internet=[bool]$n;session=[bool](Get-Process explorer)}"#;

pub(super) const HELP_START: &str = r#"if((Get-Process -Id $PID).SessionId -eq 0){J @{session0=$true};exit};Start-Process 'ms-quick-assist:';$q=$null;for($i=0;$i -lt 20 -and -not $q;$i++){Start-Sleep -Milliseconds 250;$q=Get-Process QuickAssist|select -First 1};J @{pid=$q.Id}"#;

pub(super) const HELP_STOP: &str = "$q=@(Get-Process QuickAssist);$q|Stop-Process -Force;J @{stopped=[bool]$q.Count}";

#[cfg(test)]
mod tests {
    use convoke_core::health::SECTIONS as CONTRACT;

    use super::*;

    #[test]
    fn every_section_has_a_script_that_prints_json() {
        for contract in CONTRACT {
            let script = section(contract.name).unwrap_or_else(|| panic!("{}", contract.name));
            assert!(script.contains("J @"), "{}", contract.name);
        }
        assert_eq!(SECTIONS.len(), CONTRACT.len());
    }

    #[test]
    fn scripts_balance_their_brackets() {
        let winget =
            ["winget_list", "winget_install", "winget_uninstall", "winget_update"].map(|tool| winget(tool).unwrap());
        let scripts = SECTIONS.iter().map(|(_, script)| *script).chain(winget.iter().map(String::as_str));
        for script in
            scripts.chain([PRELUDE, EVENTS, DNS_FLUSH, ADAPTER_RESET, SCREEN, HELP_STATUS, HELP_START, HELP_STOP])
        {
            for (open, close) in [('(', ')'), ('{', '}'), ('[', ']')] {
                let count = |c: char| script.matches(c).count();
                assert_eq!(count(open), count(close), "{open} in {script}");
            }
            assert_eq!(script.matches('\'').count() % 2, 0, "{script}");
        }
    }
}
