"""What the lab consists of: how each part is set up, started and found to be ready."""

import shutil
import subprocess
from pathlib import Path

from processes import answers, fail, listens
from settings import PASSWORD, PORTS, REGION, database, url

# Debian's packages. With what they recommend they would bring agents and Apache.
PACKAGES = ("keystone neutron-server nova-api nova-conductor nova-scheduler placement-api glance-api octavia-api octavia-worker"
            " barbican-api rabbitmq-server mariadb-server curl procps").split()
# The order in which they end: who uses the database and the bus, then these.
ORDER = ("nova-compute nova-scheduler nova-conductor nova octavia-worker octavia barbican glance neutron placement keystone",
         "rabbitmq mariadb", "epmd")

# Queues of the bus, and who takes what is in them. A message to one that nobody has opened yet is lost, and nobody hears of it: a machine
# stays in BUILD, a load balancer in PENDING_CREATE.
QUEUES = {"conductor": "nova-conductor", "scheduler": "nova-scheduler", "compute.lab": "nova-compute", "octavia_prov": "octavia-worker"}
CONSUMERS = """
import sys, amqp
with amqp.Connection(sys.argv[1], userid="guest", password="guest") as connection:
    sys.exit(0 if connection.channel().queue_declare(sys.argv[2], passive=True).consumer_count else 1)
"""


class Services:
    def __init__(self, root, processes):
        self.root, self.processes, self.etc, self.data = root, processes, root / "etc", root / "data"

    def sql(self, schema, statement):
        command = ["mariadb", "--no-defaults", f"--socket={self.root}/run/mariadb.sock", "--user=root", "--batch", "--skip-column-names"]
        run = subprocess.run([*command, *([schema] if schema else []), "-e", statement], capture_output=True, text=True)
        return run.stdout if run.returncode == 0 else fail(run.stderr.strip())

    def start_foundation(self):
        """The database and the bus."""
        data = self.data / "mariadb"
        if not (data / "mysql").is_dir():
            self.processes.run("mariadb", "mariadb-install-db", "--no-defaults", f"--datadir={data}", "--skip-test-db", "--user=root",
                               "--auth-root-authentication-method=normal")
        socket = self.root / "run/mariadb.sock"
        self.processes.start("mariadb", [
            "mariadbd", "--no-defaults", "--user=root", f"--datadir={data}", f"--socket={socket}", "--skip-networking",
            f"--pid-file={self.root}/run/mariadb.own", "--character-set-server=utf8mb3", "--collation-server=utf8mb3_general_ci",
            "--max-connections=600", "--innodb-buffer-pool-size=192M", "--innodb-flush-log-at-trx-commit=0", "--skip-name-resolve"])
        self.processes.start("epmd", ["epmd", "-address", "127.0.0.1", "-port", str(PORTS["epmd"])])
        self.processes.wait("epmd", "does not listen", lambda: listens(PORTS["epmd"]))
        rabbit = self.etc / "rabbitmq"
        rabbit.mkdir(exist_ok=True)
        for name, text in (("environment", ""), ("plugins", "[].")):
            (rabbit / name).write_text(text)
        server = sorted(Path("/usr/lib/rabbitmq/lib").glob("rabbitmq_server-*/sbin/rabbitmq-server"))[-1]
        self.processes.start("rabbitmq", [str(server)], **{f"RABBITMQ_{name}": str(value) for name, value in {
            "NODENAME": "wasm-ccm-lab@localhost", "NODE_IP_ADDRESS": "127.0.0.1", "NODE_PORT": PORTS["rabbitmq"],
            "DIST_PORT": PORTS["distribution"], "CONF_ENV_FILE": rabbit / "environment", "CONFIG_FILE": rabbit / "none",
            "ENABLED_PLUGINS_FILE": rabbit / "plugins", "MNESIA_BASE": self.data / "rabbitmq", "LOG_BASE": self.root / "log", "LOGS": "-",
            "PID_FILE": self.root / "run/rabbitmq.own",
            "SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}"}.items()},
            ERL_EPMD_ADDRESS="127.0.0.1", ERL_EPMD_PORT=str(PORTS["epmd"]))
        ping = ["mariadb-admin", "--no-defaults", f"--socket={socket}", "--user=root", "ping"]
        self.processes.wait("mariadb", "does not answer", lambda: subprocess.run(ping, capture_output=True).returncode == 0)

    def set_up(self, name):
        """The database of a service, once."""
        done = self.data / f"{name}.done"
        if done.exists():
            return
        steps = getattr(self, "_" + name)()
        for schema in next(steps):
            self.sql(None, f"CREATE DATABASE IF NOT EXISTS {schema}")
        for step in steps:
            self.processes.run(name, *step)
        done.touch()

    def _keystone(self):
        yield ["keystone"]
        manage = ["keystone-manage", f"--config-file={self.etc}/keystone/keystone.conf"]
        yield [*manage, "db_sync"]
        for keys in ("fernet_setup", "credential_setup"):
            yield [*manage, keys, "--keystone-user=root", "--keystone-group=root"]
        urls = [f"--bootstrap-{kind}-url={url('keystone')}/v3" for kind in ("admin", "internal", "public")]
        yield [*manage, "bootstrap", f"--bootstrap-password={PASSWORD}", f"--bootstrap-region-id={REGION}", *urls]

    def _neutron(self):
        yield ["neutron"]
        yield ["neutron-db-manage", f"--config-file={self.etc}/neutron/neutron.conf", f"--config-file={self.etc}/neutron/ml2.ini",
               "upgrade", "heads"]

    def _placement(self):
        yield ["placement"]
        yield ["placement-manage", f"--config-file={self.etc}/placement/placement.conf", "db", "sync"]

    def _glance(self):
        yield ["glance"]
        yield ["glance-manage", f"--config-file={self.etc}/glance/glance-api.conf", "db_sync"]

    def _nova(self):
        yield ["nova_api", "nova_cell0", "nova"]
        manage = ["nova-manage", f"--config-file={self.etc}/nova/nova.conf"]
        yield [*manage, "api_db", "sync"]
        yield [*manage, "cell_v2", "map_cell0", f"--database_connection={database(self.root, 'nova_cell0')}"]
        if "1" not in self.sql("nova_api", "select 1 from cell_mappings where name = 'cell1'"):
            yield [*manage, "cell_v2", "create_cell", "--name=cell1"]
        yield [*manage, "db", "sync"]

    def _barbican(self):
        yield ["barbican"]
        yield ["barbican-manage", "db", "upgrade", f"--db-url={database(self.root, 'barbican')}"]

    def _octavia(self):
        yield ["octavia"]
        yield ["octavia-db-manage", f"--config-file={self.etc}/octavia/octavia.conf", "upgrade", "head"]
        folder = self.data / "octavia"
        yield ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-sha256", "-days", "3650", "-subj", "/CN=lab", "-passout", f"pass:{PASSWORD}",
               "-keyout", f"{folder}/ca.key", "-out", f"{folder}/ca.pem"]

    def start_keystone(self):
        # Its memory of tokens is that of the process; of two threads, one was seen to act with the roles of the other.
        self._web("keystone", "/usr/bin/keystone-wsgi-public", OS_KEYSTONE_CONFIG_FILES=f"{self.etc}/keystone/keystone.conf",
                  OS_KEYSTONE_CONFIG_DIR=f"{self.etc}/keystone", threads=1)
        self.processes.wait("keystone", "does not answer", lambda: answers(url("keystone") + "/v3"))

    def start(self):
        """Starts all others. They log in at once, some only then, and are ready later."""
        etc, python = self.etc, "/usr/bin/python3"
        # Who does not reach the bus at once tries again later and later.
        self.processes.wait("rabbitmq", "does not listen", lambda: listens(PORTS["rabbitmq"]))
        self._web("placement", "/usr/bin/placement-api", OS_PLACEMENT_CONFIG_DIR=f"{etc}/placement")
        # Its green threads replace real ones, which would hang.
        self._web("neutron", "/usr/bin/neutron-api", f"--config-file={etc}/neutron/neutron.conf --config-file={etc}/neutron/ml2.ini",
                  processes=3, threads=1)
        for name in ("glance-api-paste.ini", "schema-image.json"):
            shutil.copy(f"/etc/glance/{name}", etc / "glance")
        self.processes.start("glance", ["glance-api", f"--config-file={etc}/glance/glance-api.conf"])
        self._web("barbican", self._barbican_program(), f"--config-file={etc}/barbican/barbican.conf")
        self._web("octavia", "/usr/bin/octavia-wsgi", f"--config-file={etc}/octavia/octavia.conf")
        self._main("octavia-worker", "octavia.cmd.octavia_worker", "lab_octavia_worker", "octavia/octavia.conf")
        shutil.copy("/etc/nova/api-paste.ini", etc / "nova")
        # Libraries of its own lock with green threads all the same: a real thread that waited for such a lock was never woken.
        self._web("nova", "/usr/bin/nova-api-wsgi", OS_NOVA_DISABLE_EVENTLET_PATCHING="1", OS_NOVA_CONFIG_DIR=f"{etc}/nova",
                  processes=3, threads=1)
        for name in ("nova-conductor", "nova-scheduler"):
            self.processes.start(name, [python, f"/usr/bin/{name}", f"--config-file={etc}/nova/nova.conf"])
        self._main("nova-compute", "nova.cmd.compute", "lab_nova", "nova/nova.conf")

    def wait(self):
        """Waits until each answers, or takes what is sent to it."""
        for name in ("placement", "neutron", "glance", "barbican", "octavia", "nova"):
            self.processes.wait(name, "does not answer", lambda: answers(url(name) + "/"))
        for queue, name in QUEUES.items():
            ask = ["/usr/bin/python3", "-c", CONSUMERS, f"127.0.0.1:{PORTS['rabbitmq']}", queue]
            self.processes.wait(name, f"has not opened its queue {queue}", lambda: subprocess.run(ask, capture_output=True).returncode == 0)

    def stop(self):
        for group in ORDER:
            self.processes.stop(*group.split())

    def _barbican_program(self):
        """Barbican looks for its configuration in /etc and in the home folder; its check of tokens only where it is told."""
        folder = self.etc / "barbican"
        home = self.data / "home/.barbican"
        home.mkdir(exist_ok=True)
        shutil.copy(folder / "barbican.conf", home / "barbican.conf")
        check = "paste.filter_factory = keystonemiddleware.auth_token:filter_factory"
        told = f"{check}\noslo_config_project = barbican\noslo_config_file = {folder}/barbican.conf"
        paste = Path("/etc/barbican/barbican-api-paste.ini").read_text()
        (folder / "paste.ini").write_text(paste.replace(check, told))
        program = folder / "program.py"
        program.write_text(f"from paste.deploy import loadapp\napplication = loadapp('config:{folder}/paste.ini')\n")
        return str(program)

    def _web(self, name, program, arguments="", processes=1, threads=4, **environment):
        self.processes.start(name, [
            "uwsgi_python3", f"--http-socket=127.0.0.1:{PORTS[name]}", f"--wsgi-file={program}", f"--pyargv={arguments}", "--master",
            f"--processes={processes}", f"--threads={threads}", "--enable-threads", "--lazy-apps", "--thunder-lock", "--need-app",
            "--die-on-term", "--buffer-size=65535", "--post-buffering=1", "--add-header=Connection: close", "--disable-logging"], **environment)

    def _main(self, name, module, plugin, configuration):
        """Runs a program with a plug-in that changes it before it starts."""
        code = f"import sys, {plugin}; from {module} import main; sys.argv[0] = {name!r}; sys.exit(main())"
        self.processes.start(name, ["/usr/bin/python3", "-c", code, f"--config-file={self.etc}/{configuration}"])
