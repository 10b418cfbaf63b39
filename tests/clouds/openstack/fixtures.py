"""What every test finds in the lab: roles, the catalogue, a network that leads outside, a flavor and an image. Made through the APIs, and
only what is missing. Projects, users, networks and machines are the tests' own."""

import json
import time
import urllib.error
import urllib.request

from processes import PATIENCE, fail
from settings import PASSWORD, PORTS, REGION, url

KINDS = {"neutron": ("network", ""), "nova": ("compute", "/v2.1"), "placement": ("placement", ""), "glance": ("image", ""),
         "barbican": ("key-manager", ""), "octavia": ("load-balancer", "")}
ROLES = ("admin", "member", "reader", "service", "creator", "load-balancer_member")


class Admin:
    """A client of all services that may do everything."""

    def __init__(self):
        self.opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        self.token = None
        password = {"user": {"name": "admin", "domain": {"id": "default"}, "password": PASSWORD}}
        login = {"auth": {"identity": {"methods": ["password"], "password": password},
                          "scope": {"project": {"name": "admin", "domain": {"id": "default"}}}}}
        self.token = self.send("keystone", "POST", "/v3/auth/tokens", login)[1]["X-Subject-Token"]

    def send(self, service, method, path, body=None, kind="application/json"):
        data = json.dumps(body).encode() if isinstance(body, dict) else body
        headers = {"Content-Type": kind, "Accept": "application/json", **({"X-Auth-Token": self.token} if self.token else {})}
        request = urllib.request.Request(url(service) + path, data, headers, method=method)
        try:
            with self.opener.open(request, timeout=120) as answer:
                text = answer.read()
                return json.loads(text) if text.strip() else {}, answer.headers
        except urllib.error.HTTPError as error:
            fail(f"{method} {url(service)}{path}: {error.code} {error.read().decode(errors='replace')}")

    def ensure(self, service, path, key, body, same=("name",)):
        """What the collection has with these values, else a new one."""
        plural = path.split("?")[0].rpartition("/")[2].replace("-", "_")
        for found in self.send(service, "GET", path)[0][plural]:
            if all(found.get(name) == body.get(name) for name in same):
                return found
        made = self.send(service, "POST", path, {key: body} if key else body)[0]
        return made[key] if key else made


def identity(admin):
    roles = {name: admin.ensure("keystone", "/v3/roles", "role", {"name": name})["id"] for name in ROLES}
    project = admin.ensure("keystone", "/v3/projects", "project", {"name": "service", "domain_id": "default"})["id"]
    for name, (kind, path) in KINDS.items():
        user = admin.ensure("keystone", "/v3/users", "user", {"name": name, "domain_id": "default", "password": PASSWORD})["id"]
        for role in ("admin", "service"):
            admin.send("keystone", "PUT", f"/v3/projects/{project}/users/{user}/roles/{roles[role]}")
        service = admin.ensure("keystone", "/v3/services", "service", {"name": name, "type": kind})["id"]
        for interface in ("public", "internal"):
            endpoint = {"service_id": service, "interface": interface, "region_id": REGION, "url": url(name) + path}
            admin.ensure("keystone", "/v3/endpoints", "endpoint", endpoint, ("service_id", "interface"))
    return roles


def await_reports(admin, since):
    """Waits until each program of Nova has reported after this time: before, it may be the one that ended, whose report still counts."""
    wanted = {"nova-conductor", "nova-scheduler", "nova-compute"}
    deadline = time.monotonic() + PATIENCE
    while True:
        services = admin.send("nova", "GET", "/v2.1/os-services")[0]["services"]
        silent = wanted - {service["binary"] for service in services if service["state"] == "up" and (service["updated_at"] or "") >= since}
        if not silent:
            return
        if time.monotonic() > deadline:
            fail(f"{', '.join(sorted(silent))} did not report to Nova's database within {PATIENCE} s, see their logs")
        time.sleep(0.2)


def resources(admin):
    outside = admin.ensure("neutron", "/v2.0/networks", "network", {
        "name": "public", "router:external": True, "provider:network_type": "flat", "provider:physical_network": "public", "shared": True})["id"]
    subnets = []
    for name, cidr in (("public-a", "172.24.0.0/17"), ("public-b", "172.24.128.0/17")):
        subnet = admin.ensure("neutron", "/v2.0/subnets", "subnet", {
            "name": name, "network_id": outside, "ip_version": 4, "cidr": cidr, "enable_dhcp": False})["id"]
        admin.send("neutron", "PUT", f"/v2.0/subnets/{subnet}/tags", {"tags": ["floating", name]})
        subnets.append(subnet)
    flavor = admin.ensure("nova", "/v2.1/flavors", "flavor", {"name": "m1.lab", "ram": 64, "vcpus": 1, "disk": 1})["id"]
    image = admin.ensure("glance", "/v2/images", None, {
        "name": "lab", "disk_format": "raw", "container_format": "bare", "visibility": "public"})
    if image["status"] == "queued":
        admin.send("glance", "PUT", f"/v2/images/{image['id']}/file", bytes(1024), "application/octet-stream")
    return {"public_network": outside, "public_subnets": subnets, "flavor": flavor, "image": image["id"]}


def describe(root, roles, found, token_cache):
    """`lab.json`: what a client of the lab has to know."""
    services = {kind: url(name) for name, (kind, _) in KINDS.items()}
    text = json.dumps({"identity": url("keystone"), "services": services, "region": REGION, "administrator": "admin", "password": PASSWORD,
                       "token_cache": token_cache, "roles": roles, **found}, indent=2)
    path = root / "lab.json"
    path.touch(mode=0o600)
    path.write_text(text + "\n")
