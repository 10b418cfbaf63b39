"""Configuration files of the services: sections and options, without the defaults."""

# Each service on a port that is nobody's default, so that an OpenStack beside it is not disturbed.
PORTS = {"keystone": 25000, "nova": 28774, "placement": 28778, "neutron": 29696, "glance": 29292, "octavia": 29876, "barbican": 29311,
         "rabbitmq": 25670, "epmd": 24369, "distribution": 25679}
REGION = "RegionOne"
# Of every account of the lab itself, and of its authorities' keys. Tests make accounts of their own.
PASSWORD = "lab-password"
UNLIMITED = 100000


def url(service):
    return f"http://127.0.0.1:{PORTS[service]}"


def database(root, name):
    return f"mysql+pymysql://root@localhost/{name}?unix_socket={root}/run/mariadb.sock&charset=utf8"


def files(root, page_limit, token_cache):
    """Each file below `etc`, and what it contains. A page limit of 0 is the service's own."""
    bus = f"rabbit://guest:guest@127.0.0.1:{PORTS['rabbitmq']}/"
    paged = {"pagination_max_limit": page_limit} if page_limit else {}

    def account(name, **more):
        return {"auth_url": url("keystone") + "/v3", "auth_type": "password", "username": name, "password": PASSWORD,
                "user_domain_id": "default", "project_name": "service", "project_domain_id": "default", "region_name": REGION, **more}

    def checks_tokens(name):
        return account(name, www_authenticate_uri=url("keystone") + "/v3", service_token_roles_required=True, token_cache_time=token_cache)

    def sql(name):
        return {"connection": database(root, name)}

    keystone = {
        "DEFAULT": {"use_stderr": True}, "database": sql("keystone"),
        "token": {"provider": "fernet", "expiration": 3600, "allow_expired_window": 0},
        # Tests log in often, and what protects their passwords is this machine.
        "identity": {"password_hash_rounds": 4},
        "fernet_tokens": {"key_repository": f"{root}/data/fernet"}, "credential": {"key_repository": f"{root}/data/credential"},
        # In memory: there is one process.
        "cache": {"enabled": True, "backend": "dogpile.cache.memory"},
    }
    neutron = {
        "DEFAULT": {"use_stderr": True, "core_plugin": "ml2", "service_plugins": "router,trunk", "auth_strategy": "keystone",
                    "api_paste_config": "/etc/neutron/api-paste.ini", "state_path": f"{root}/data/neutron", "transport_url": bus,
                    # There are no agents.
                    "dhcp_agent_notification": False, "router_auto_schedule": False, "network_auto_schedule": False,
                    "notify_nova_on_port_status_changes": False, "notify_nova_on_port_data_changes": False, **paged},
        "oslo_concurrency": {"lock_path": f"{root}/data/neutron"}, "database": sql("neutron"),
        "quotas": {f"quota_{kind}": -1 for kind in
                   ("network", "subnet", "port", "router", "floatingip", "security_group", "security_group_rule")},
        "keystone_authtoken": checks_tokens("neutron"),
    }
    ml2 = {
        "ml2": {"type_drivers": "flat,vxlan", "tenant_network_types": "vxlan", "mechanism_drivers": "openvswitch,lab",
                "extension_drivers": "port_security"},
        "ml2_type_flat": {"flat_networks": "*"}, "ml2_type_vxlan": {"vni_ranges": "1:5000"}, "securitygroup": {"enable_security_group": True},
    }
    placement = {"DEFAULT": {"use_stderr": True}, "placement_database": sql("placement"), "api": {"auth_strategy": "keystone"},
                 "keystone_authtoken": checks_tokens("placement")}
    glance = {"DEFAULT": {"use_stderr": True, "bind_host": "127.0.0.1", "bind_port": PORTS["glance"], "workers": 1, "transport_url": "fake://"},
              "database": sql("glance"), "paste_deploy": {"flavor": "keystone"}, "keystone_authtoken": checks_tokens("glance"),
              "glance_store": {"stores": "file", "default_store": "file", "filesystem_store_datadir": f"{root}/data/images"}}
    nova = {
        "DEFAULT": {"use_stderr": True, "my_ip": "127.0.0.1", "host": "lab", "state_path": f"{root}/data/nova",
                    "instances_path": f"{root}/data/nova/instances", "transport_url": bus, "enabled_apis": "osapi_compute",
                    # Reports are soon there after a start, and late ones on a busy machine switch nothing off.
                    "report_interval": 3, "service_down_time": 180,
                    "compute_driver": "fake.FakeDriver", "vif_plugging_is_fatal": False, "vif_plugging_timeout": 0},
        "oslo_concurrency": {"lock_path": f"{root}/data/nova"}, "api_database": sql("nova_api"), "database": sql("nova"),
        "api": {"auth_strategy": "keystone", **({"max_limit": page_limit} if page_limit else {})},
        "quota": {"instances": -1, "cores": -1, "ram": -1},
        "conductor": {"workers": 1}, "scheduler": {"workers": 1, "discover_hosts_in_cells_interval": 5},
        "filter_scheduler": {"enabled_filters": "ComputeFilter"}, "glance": {"endpoint_override": url("glance")},
        "cinder": {"catalog_info": "volumev3::publicURL"}, "neutron": account("neutron", endpoint_override=url("neutron")),
        "placement": account("placement"), "service_user": {"send_service_user_token": False}, "keystone_authtoken": checks_tokens("nova"),
    }
    barbican = {
        "DEFAULT": {"use_stderr": True, "host_href": url("barbican"), "sql_connection": database(root, "barbican"), "db_auto_create": False,
                    "transport_url": "fake://"},
        "database": sql("barbican"), "queue": {"enable": False}, "secretstore": {"enabled_secretstore_plugins": "store_crypto"},
        "crypto": {"enabled_crypto_plugins": "simple_crypto"},
        # 32 bytes in base64, as the plug-in wants its key.
        "simple_crypto_plugin": {"kek": "d2FzbS1jY20td2FzbS1jY20td2FzbS1jY20td2FzbTE="}, "keystone_authtoken": checks_tokens("barbican"),
    }
    octavia = {
        "DEFAULT": {"use_stderr": True, "transport_url": bus},
        "api_settings": {"bind_host": "127.0.0.1", "bind_port": PORTS["octavia"], "auth_strategy": "keystone",
                         "api_base_uri": url("octavia") + "/", "allow_tls_terminated_listeners": True,
                         "enabled_provider_drivers": "amphora:'Amphorae',octavia:'Amphorae under their old name'",
                         "default_provider_driver": "amphora", **paged},
        "database": sql("octavia"), "oslo_messaging": {"topic": "octavia_prov", "rpc_thread_pool_size": 2},
        "health_manager": {"bind_ip": "127.0.0.1", "bind_port": 25555, "controller_ip_port_list": "127.0.0.1:25555", "heartbeat_key": PASSWORD},
        "certificates": {"cert_generator": "local_cert_generator", "cert_manager": "barbican_cert_manager", "barbican_auth": "barbican_acl_auth",
                         "endpoint": url("barbican"), "region_name": REGION, "ca_certificate": f"{root}/data/octavia/ca.pem",
                         "ca_private_key": f"{root}/data/octavia/ca.key", "ca_private_key_passphrase": PASSWORD,
                         "server_certs_key_passphrase": "wasm-ccm-wasm-ccm-wasm-ccm-wasm1"},
        # No machine, no HAProxy; network addresses and security groups are real.
        "controller_worker": {"workers": 1, "loadbalancer_topology": "SINGLE", "amphora_driver": "amphora_noop_driver",
                              "compute_driver": "compute_noop_driver", "network_driver": "lab_addresses", "image_driver": "image_noop_driver",
                              "volume_driver": "volume_noop_driver", "client_ca": f"{root}/data/octavia/ca.pem",
                              "amp_active_wait_sec": 1, "amp_active_retries": 5},
        "service_auth": account("octavia"), "neutron": {"endpoint": url("neutron"), "region_name": REGION},
        "quotas": {f"default_{kind}_quota": UNLIMITED for kind in ("load_balancer", "listener", "member", "pool", "health_monitor")},
        "keystone_authtoken": checks_tokens("octavia"),
    }
    return {"keystone/keystone.conf": keystone, "neutron/neutron.conf": neutron, "neutron/ml2.ini": ml2, "placement/placement.conf": placement,
            "glance/glance-api.conf": glance, "nova/nova.conf": nova, "barbican/barbican.conf": barbican, "octavia/octavia.conf": octavia}


def write(root, page_limit, token_cache):
    for name, sections in files(root, page_limit, token_cache).items():
        path = root / "etc" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(
            f"[{section}]\n" + "".join(f"{option} = {value}\n" for option, value in options.items()) for section, options in sections.items()))
