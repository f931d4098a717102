/**
 * Owns one example of every route of the host-agent, in the order in which they follow from each other: a test sends
 * them all, in this order, to a fake host-agent, and holds request and answer to their declarations.
 */
import type {
  RouteBodyInput,
  RouteName,
  RouteParams,
  RouteQueryInput,
  RouteResult,
} from "../../protocol/host-agent/routes.ts";

export interface RouteExample<R extends RouteName = RouteName> {
  readonly params?: RouteParams<R>;
  readonly query?: RouteQueryInput<R>;
  readonly body?: RouteBodyInput<R>;
  /** Of a stream: its first frame. */
  readonly result: RouteResult<R>;
}

/** The job that the examples speak of: the first that is started. */
export const EXAMPLE_JOB = "j_a4f7b2";

export const HOST_AGENT_EXAMPLES: { readonly [R in RouteName]: RouteExample<R> } = {
  systemStatus: {
    result: {
      hostname: "malmo",
      uptime_s: 3,
      disk_pressure: false,
      data_disk_free_bytes: 442381180928,
      data_disk_total_bytes: 1099511627776,
      disks: [
        { label: "System", free_bytes: 19327352832, total_bytes: 68719476736 },
        { label: "Data", free_bytes: 442381180928, total_bytes: 1099511627776 },
      ],
      agent_version: "2026.11.0",
    },
  },
  systemResources: {
    result: {
      ts_ns: 28852279738986,
      cpu: { total_jiffies: 600, idle_jiffies: 492 },
      loadavg: [0.42, 0.51, 0.48],
      mem: { total_bytes: 16728338432, available_bytes: 9214455808, used_bytes: 7513882624 },
      net: [{ iface: "eth0", rx_bytes: 36000, tx_bytes: 12000 }],
      disk: [{ dev: "sda", read_bytes: 24576, write_bytes: 6144 }],
      uptime_s: 3,
    },
  },
  systemGpu: { result: { present: true, vendor: "intel", render_gid: 104 } },
  healthSystem: {
    result: {
      checked_at: "2026-12-01T10:15:00Z",
      categories: { storage: [], drives: [], services: [], resources: [], time: [], system: [] },
    },
  },
  stateSummary: {
    result: {
      taken_at: "2026-12-01T10:15:00.000Z",
      services: {
        tailscale: { enabled: false, running: false },
        samba: { enabled: false, running: false },
        dlna: { enabled: false, running: false },
        ssh: { enabled: true, running: true },
      },
      discovery: {},
      network: {
        primary: "ethernet-1",
        connections: {
          "ethernet-1": {
            kind: "ethernet",
            ipv4: {
              mode: "dhcp",
              address: "192.168.1.20/24",
              gateway: "192.168.1.1",
              dns: ["192.168.1.1"],
            },
          },
        },
      },
      identity: {
        malmo_app_uid: 2000,
        malmo_app_gid: 2000,
        malmo_shared_gid: 2001,
        app_services: {},
      },
      users: {},
      time: { zone: "Europe/Stockholm" },
      host: { hostname: "malmo" },
    },
  },
  setHostname: { body: { hostname: "attic" }, result: {} },
  setTimezone: { body: { zone: "Europe/Stockholm" }, result: {} },
  setPassword: { body: { user: "alex", password: "correct horse battery staple" }, result: {} },
  verifyPassword: {
    body: { user: "alex", password: "correct horse battery staple" },
    result: { valid: true },
  },
  setRole: { body: { user: "alex", role: "admin" }, result: {} },
  userHome: {
    params: { username: "alex" },
    result: { home_path: "/home/alex", uid: 3181, gid: 3181 },
  },
  wellKnownIdentity: {
    result: { malmo_app_uid: 2000, malmo_app_gid: 2000, malmo_shared_gid: 2001 },
  },
  allocateAppService: {
    body: { instance_id: "navidrome-20261201t101500" },
    result: { uid: 2100, gid: 2100 },
  },
  releaseAppService: { body: { uid: 2100 }, result: {} },
  discoveryPublish: {
    body: { slug: "photos" },
    result: { name: "photos.local", state: "established" },
  },
  discoveryState: {
    result: {
      publisher: "avahi-fake",
      host_name: "attic",
      renamed_to: null,
      published: [{ slug: "photos", name: "photos.local", state: "established" }],
      interfaces: ["eth0", "wlan0"],
    },
  },
  discoveryUnpublish: { body: { slug: "photos" }, result: {} },
  networkState: {
    result: {
      primary: "ethernet-1",
      ethernet: [{ connection_id: "ethernet-1", iface: "eth0", connected: true, speed_mbps: 1000 }],
      wifi: [
        {
          ssid: "Malmo Home",
          signal: -52,
          secured: true,
          connection_id: "",
          connected: false,
          saved: false,
        },
        {
          ssid: "Open Cafe",
          signal: -67,
          secured: false,
          connection_id: "",
          connected: false,
          saved: false,
        },
        {
          ssid: "Timeout Cafe",
          signal: -81,
          secured: false,
          connection_id: "",
          connected: false,
          saved: false,
        },
      ],
      ipv4: {
        "ethernet-1": {
          mode: "dhcp",
          address: "192.168.1.20/24",
          gateway: "192.168.1.1",
          dns: ["192.168.1.1"],
        },
      },
      ipv6: {},
    },
  },
  networkEvents: {
    result: { type: "connected", ts: "2026-12-01T10:15:00.000Z", connection_id: "wifi-1" },
  },
  wifiScan: {
    result: {
      networks: [
        { ssid: "Malmo Home", signal: -52, secured: true, freq_mhz: 5180 },
        { ssid: "Open Cafe", signal: -67, secured: false, freq_mhz: 2437 },
        { ssid: "Timeout Cafe", signal: -81, secured: false, freq_mhz: 2412 },
      ],
    },
  },
  wifiConnect: {
    body: { ssid: "Malmo Home", password: "correct horse battery staple" },
    result: { connection_id: "wifi-1", state: "activated" },
  },
  wifiForget: { body: { connection_id: "wifi-1" }, result: {} },
  setPrimary: { body: { connection_id: "ethernet-1" }, result: {} },
  configureIp: {
    body: {
      connection_id: "ethernet-1",
      ipv4: { mode: "static", address: "192.0.2.8/24", gateway: "192.0.2.1", dns: ["192.0.2.53"] },
    },
    result: {},
  },
  serviceGet: { params: { name: "samba" }, result: { enabled: false, running: false } },
  serviceEnable: { params: { name: "samba" }, body: {}, result: { enabled: true, running: true } },
  serviceRestart: { params: { name: "samba" }, body: {}, result: { enabled: true, running: true } },
  serviceDisable: {
    params: { name: "samba" },
    body: {},
    result: { enabled: false, running: false },
  },
  filesMkdir: { body: { user: "alex", root: "home", path: "Photos" }, result: {} },
  filesUpload: { query: { user: "alex", root: "home", path: "Photos/img.jpg" }, result: {} },
  filesList: {
    body: { user: "alex", root: "home", path: "Photos" },
    result: {
      entries: [
        {
          name: "img.jpg",
          dir: false,
          size_bytes: 5,
          mtime: "2026-12-01T10:15:00.000Z",
          hidden: false,
        },
      ],
    },
  },
  filesStat: {
    body: { user: "alex", root: "home", path: "Photos/img.jpg" },
    result: {
      name: "img.jpg",
      dir: false,
      size_bytes: 5,
      mtime: "2026-12-01T10:15:00.000Z",
      hidden: false,
    },
  },
  filesDownload: { query: { user: "alex", root: "home", path: "Photos/img.jpg" }, result: "bytes" },
  filesCopy: {
    body: {
      user: "alex",
      from: { root: "home", path: "Photos/img.jpg" },
      to: { root: "shared", path: "img.jpg" },
    },
    result: {},
  },
  filesMove: {
    body: {
      user: "alex",
      from: { root: "home", path: "Photos/img.jpg" },
      to: { root: "home", path: "Photos/cover.jpg" },
    },
    result: {},
  },
  filesDelete: { body: { user: "alex", root: "home", path: "Photos/cover.jpg" }, result: {} },
  systemUpdate: {
    body: {},
    result: {
      job_id: "j_a4f7b2",
      kind: "system-update",
      status: "running",
      started_at: "2026-12-01T10:15:00.000Z",
    },
  },
  jobGet: {
    params: { id: "j_a4f7b2" },
    result: {
      job_id: "j_a4f7b2",
      kind: "system-update",
      status: "running",
      started_at: "2026-12-01T10:15:00.000Z",
    },
  },
  jobList: {
    result: {
      jobs: [
        {
          job_id: "j_a4f7b2",
          kind: "system-update",
          status: "running",
          started_at: "2026-12-01T10:15:00.000Z",
        },
      ],
    },
  },
  jobLog: {
    params: { id: "j_a4f7b2" },
    result: { ts: "2026-12-01T10:15:00.000Z", stream: "stdout", line: "Reading package lists..." },
  },
  enrollDrive: {
    body: {
      device: "/dev/sdb",
      admin_user: "alex",
      admin_password: "correct horse battery staple",
    },
    result: { job_id: "j_a4f7b2", kind: "enroll-drive", status: "queued", queue_position: 1 },
  },
  ejectDrive: {
    body: { admin_user: "alex", admin_password: "correct horse battery staple" },
    result: { job_id: "j_a4f7b2", kind: "eject-drive", status: "queued", queue_position: 2 },
  },
  jobCancel: {
    params: { id: "j_a4f7b2" },
    body: {},
    result: { job_id: "j_a4f7b2", status: "cancelling" },
  },
  journalFollow: {
    query: { container: "malmo-photos-main" },
    result: {
      ts: "2026-12-01T10:15:00.000Z",
      stream: "stdout",
      line: "line 1 of a container that only pretends to run",
    },
  },
  reboot: {
    body: {},
    result: { job_id: "j_a4f7b2", kind: "reboot", status: "queued", queue_position: 2 },
  },
  shutdown: {
    body: {},
    result: { job_id: "j_a4f7b2", kind: "shutdown", status: "queued", queue_position: 3 },
  },
  openApi: { result: { openapi: "3.1.0" } },
  deleteUser: { body: { user: "alex" }, result: {} },
};
