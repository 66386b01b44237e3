import java.io.File;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.Stream;

/** Three servers of ZooKeeper, with a process each, which are killed, or stopped for a time. */
final class Ensemble implements AutoCloseable {
    static final int SIZE = 3;

    private final Path folder = Files.createTempDirectory("ensemble");
    private final List<Integer> ports = new ArrayList<>();
    private final Process[] processes = new Process[SIZE];

    Ensemble() throws Exception {
        List<ServerSocket> sockets = new ArrayList<>();
        for (int socket = 0; socket < 3 * SIZE; socket++) {
            sockets.add(new ServerSocket(0, 50, InetAddress.getByName("127.0.0.1")));
        }
        for (ServerSocket socket : sockets) {
            ports.add(socket.getLocalPort());
            socket.close();
        }
        for (int number = 0; number < SIZE; number++) {
            configure(number);
            start(number);
        }
        leader();
    }

    private void configure(int number) throws IOException {
        Path data = Files.createDirectory(folder.resolve("data-" + number));
        Files.writeString(data.resolve("myid"), number + "\n");
        StringBuilder text = new StringBuilder("tickTime=500\ninitLimit=20\nsyncLimit=4\n")
                .append("maxSessionTimeout=20000\nadmin.enableServer=false\n4lw.commands.whitelist=*\n")
                .append("dataDir=" + data + "\nclientPort=" + ports.get(number) + "\n")
                .append("clientPortAddress=127.0.0.1\n");
        for (int other = 0; other < SIZE; other++) {
            int quorum = ports.get(SIZE + other);
            int election = ports.get(2 * SIZE + other);
            text.append("server." + other + "=127.0.0.1:" + quorum + ":" + election + "\n");
        }
        Files.writeString(folder.resolve("zoo-" + number + ".cfg"), text);
    }

    void start(int number) throws IOException {
        String java = System.getProperty("java.home") + "/bin/java";
        File log = folder.resolve("log-" + number).toFile();
        processes[number] = new ProcessBuilder(
                        java, "-XX:+UseSerialGC", "-cp", System.getProperty("java.class.path"),
                        "org.apache.zookeeper.server.quorum.QuorumPeerMain",
                        folder.resolve("zoo-" + number + ".cfg").toString())
                .redirectErrorStream(true)
                .redirectOutput(ProcessBuilder.Redirect.appendTo(log))
                .start();
    }

    void kill(int number) throws InterruptedException {
        processes[number].destroyForcibly().waitFor();
    }

    /** Stops a process with a signal, or lets it go on. */
    void signal(int number, String signal) throws Exception {
        new ProcessBuilder("kill", "-" + signal, "" + processes[number].pid()).start().waitFor();
    }

    String address(int number) {
        return "127.0.0.1:" + ports.get(number);
    }

    String address() {
        return IntStream.range(0, SIZE).mapToObj(this::address).collect(Collectors.joining(","));
    }

    /** Waits for a leader and returns its number. */
    int leader() throws Exception {
        int[] leader = {-1};
        boolean isElected = Trial.within(30_000, () -> {
            for (int number = 0; number < SIZE && leader[0] < 0; number++) {
                leader[0] = isLeader(number) ? number : -1;
            }
            return leader[0] >= 0;
        });
        if (!isElected) {
            throw new IllegalStateException("the ensemble has no leader");
        }
        return leader[0];
    }

    private boolean isLeader(int number) {
        try {
            return Trial.fourLetters(address(number), "srvr").contains("Mode: leader");
        } catch (IOException down) {
            return false;
        }
    }

    @Override
    public void close() throws Exception {
        for (int number = 0; number < SIZE; number++) {
            kill(number);
        }
        try (Stream<Path> files = Files.walk(folder)) {
            files.sorted(Comparator.reverseOrder()).map(Path::toFile).forEach(File::delete);
        }
    }
}
