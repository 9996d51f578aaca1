//! The agent as a Windows service.

use std::ffi::OsString;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;
use windows_service::service::{
    Service as WindowsService, ServiceAccess, ServiceAction, ServiceActionType, ServiceControl, ServiceControlAccept,
    ServiceErrorControl, ServiceExitCode, ServiceFailureActions, ServiceFailureResetPeriod, ServiceInfo,
    ServiceStartType, ServiceState, ServiceStatus, ServiceType,
};
use windows_service::service_control_handler::{self, ServiceControlHandlerResult};
use windows_service::service_dispatcher;
use windows_service::service_manager::{ServiceManager, ServiceManagerAccess};

use super::{NAME, Service, ServiceError};

/// How long the manager waits before it starts the agent again.
const PAUSE: Duration = Duration::from_secs(2);
/// How long a stop may take.
const STOP: Duration = Duration::from_secs(20);
/// How often its state is asked for meanwhile: the manager has no other way to tell.
const LOOK: Duration = Duration::from_millis(100);

/// What the service does until Windows stops it. True: it ended because of that.
type Work = Box<dyn Fn(CancellationToken) -> bool + Send>;

/// Handed from `dispatch` to the thread that the manager starts.
static WORK: Mutex<Option<Work>> = Mutex::new(None);

fn failed(command: &str, why: windows_service::Error) -> ServiceError {
    ServiceError::Manager { command: command.to_owned(), why: why.to_string() }
}

/// Tells the manager of the service and starts it. Whenever it ends by itself, as after an update, it is started again.
pub(super) fn register(service: &Service) -> Result<(), ServiceError> {
    let access = ServiceManagerAccess::CONNECT | ServiceManagerAccess::CREATE_SERVICE;
    let manager = ServiceManager::local_computer(None::<&str>, access)
        .map_err(|why| failed("open the service manager", why))?;
    let info = ServiceInfo {
        name: OsString::from(NAME),
        display_name: OsString::from("Convoke agent"),
        service_type: ServiceType::OWN_PROCESS,
        start_type: ServiceStartType::AutoStart,
        error_control: ServiceErrorControl::Normal,
        executable_path: service.program.clone(),
        launch_arguments: service.arguments().into_iter().map(OsString::from).collect(),
        dependencies: Vec::new(),
        account_name: None,
        account_password: None,
    };
    let access = ServiceAccess::CHANGE_CONFIG | ServiceAccess::START | ServiceAccess::QUERY_STATUS;
    let opened = match manager.open_service(NAME, access) {
        Ok(opened) => {
            opened.change_config(&info).map_err(|why| failed("change the service", why))?;
            opened
        }
        Err(_) => manager.create_service(&info, access).map_err(|why| failed("create the service", why))?,
    };
    let again = ServiceAction { action_type: ServiceActionType::Restart, delay: PAUSE };
    let actions = ServiceFailureActions {
        reset_period: ServiceFailureResetPeriod::After(Duration::from_secs(60)),
        reboot_msg: None,
        command: None,
        actions: Some(vec![again.clone(), again.clone(), again]),
    };
    opened.update_failure_actions(actions).map_err(|why| failed("set what happens when it ends", why))?;
    opened.set_failure_actions_on_non_crash_failures(true).map_err(|why| failed("set when it is restarted", why))?;
    opened.start::<&str>(&[]).map_err(|why| failed("start the service", why))
}

/// Stops it, if there is one, and waits until its process is gone.
pub(super) fn halt() -> Result<(), ServiceError> {
    let manager = ServiceManager::local_computer(None::<&str>, ServiceManagerAccess::CONNECT)
        .map_err(|why| failed("open the service manager", why))?;
    match manager.open_service(NAME, ServiceAccess::STOP | ServiceAccess::QUERY_STATUS) {
        Ok(opened) => stop(&opened),
        Err(_) => Ok(()),
    }
}

fn stop(service: &WindowsService) -> Result<(), ServiceError> {
    let stopped = || service.query_status().map(|status| status.current_state == ServiceState::Stopped);
    if stopped().map_err(|why| failed("ask for the service", why))? {
        return Ok(());
    }
    // It may be on its way already; what counts is that it gets there.
    let _ = service.stop();
    let deadline = Instant::now() + STOP;
    while !stopped().map_err(|why| failed("ask for the service", why))? {
        if Instant::now() >= deadline {
            let why = format!("it does not stop within {} s", STOP.as_secs());
            return Err(ServiceError::Manager { command: "stop the service".into(), why });
        }
        std::thread::sleep(LOOK);
    }
    Ok(())
}

/// Stops it and tells the manager to forget it.
pub(super) fn unregister() -> Result<(), ServiceError> {
    let manager = ServiceManager::local_computer(None::<&str>, ServiceManagerAccess::CONNECT)
        .map_err(|why| failed("open the service manager", why))?;
    let access = ServiceAccess::STOP | ServiceAccess::DELETE | ServiceAccess::QUERY_STATUS;
    let Ok(opened) = manager.open_service(NAME, access) else { return Ok(()) };
    stop(&opened)?;
    opened.delete().map_err(|why| failed("delete the service", why))
}

/// Hands this process over to the manager, which calls back and says when to stop.
pub fn dispatch(work: Work) -> Result<(), ServiceError> {
    *WORK.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(work);
    service_dispatcher::start(NAME, entry).map_err(|why| failed("hand over to the service manager", why))
}

/// What the manager calls. Its arguments are those of a start by hand, and none is of use here.
extern "system" fn entry(_: u32, _: *mut *mut u16) {
    let work = WORK.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
    let Some(work) = work else { return };
    let stop = CancellationToken::new();
    let handler = {
        let stop = stop.clone();
        move |control| match control {
            ServiceControl::Stop | ServiceControl::Shutdown | ServiceControl::Preshutdown => {
                stop.cancel();
                ServiceControlHandlerResult::NoError
            }
            ServiceControl::Interrogate => ServiceControlHandlerResult::NoError,
            _ => ServiceControlHandlerResult::NotImplemented,
        }
    };
    let Ok(handle) = service_control_handler::register(NAME, handler) else { return };
    let tell = |state, code: u32| {
        let accepts = if state == ServiceState::Running {
            ServiceControlAccept::STOP | ServiceControlAccept::SHUTDOWN
        } else {
            ServiceControlAccept::empty()
        };
        let status = ServiceStatus {
            service_type: ServiceType::OWN_PROCESS,
            current_state: state,
            controls_accepted: accepts,
            exit_code: ServiceExitCode::ServiceSpecific(code),
            checkpoint: 0,
            wait_hint: if state == ServiceState::Running { Duration::default() } else { STOP },
            process_id: None,
        };
        // A manager that does not listen will find out by the process's end.
        let _ = handle.set_service_status(status);
    };
    tell(ServiceState::Running, 0);
    let told_to_stop = work(stop);
    // Ended by itself: a failure to the manager, which starts it again.
    tell(ServiceState::Stopped, u32::from(!told_to_stop));
}
