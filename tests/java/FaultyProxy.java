import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;

/** A proxy that refuses connections, cuts them, delays replies, or drops a reply and then cuts. */
final class FaultyProxy implements AutoCloseable {
    final AtomicBoolean isDown = new AtomicBoolean();
    final AtomicInteger replyDelayMs = new AtomicInteger();
    private final AtomicInteger repliesLeft = new AtomicInteger(Integer.MAX_VALUE);
    private final List<Socket> sockets = new CopyOnWriteArrayList<>();
    private final ServerSocket listener;
    private final String server;

    FaultyProxy(String server) throws IOException {
        this.server = server;
        listener = new ServerSocket(0, 50, InetAddress.getByName("127.0.0.1"));
        Thread accepting = new Thread(this::accept);
        accepting.setDaemon(true);
        accepting.start();
    }

    String address() {
        return "127.0.0.1:" + listener.getLocalPort();
    }

    void cut() {
        sockets.forEach(FaultyProxy::close);
        sockets.clear();
    }

    /** Refuses connections from now on, and cuts the others. */
    void goDown() {
        isDown.set(true);
        cut();
    }

    /** Asks the server itself. */
    String fourLetters(String word) throws IOException {
        String[] parts = server.split(":");
        try (Socket socket = new Socket(parts[0], Integer.parseInt(parts[1]))) {
            socket.getOutputStream().write(word.getBytes(StandardCharsets.UTF_8));
            String text = new String(socket.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
            return text.trim().replace('\n', ' ');
        }
    }

    /** Lets so many parts of replies pass, drops the next one, and cuts. */
    void dropAndCutAfter(int replies) {
        repliesLeft.set(replies);
    }

    private void accept() {
        String[] parts = server.split(":");
        while (true) {
            try {
                Socket down = listener.accept();
                if (isDown.get()) {
                    close(down);
                    continue;
                }
                Socket up = new Socket(parts[0], Integer.parseInt(parts[1]));
                sockets.addAll(List.of(up, down));
                copy(down, up, false);
                copy(up, down, true);
            } catch (IOException closed) {
                if (listener.isClosed()) {
                    return;
                }
            }
        }
    }

    private void copy(Socket from, Socket to, boolean isReply) {
        Thread copying = new Thread(() -> {
            byte[] buffer = new byte[1 << 16];
            try (InputStream input = from.getInputStream();
                    OutputStream output = to.getOutputStream()) {
                for (int length = input.read(buffer); length >= 0; length = input.read(buffer)) {
                    if (isReply && repliesLeft.getAndUpdate(FaultyProxy::oneLess) == 0) {
                        break;
                    }
                    Thread.sleep(isReply ? replyDelayMs.get() : 0);
                    output.write(buffer, 0, length);
                    output.flush();
                }
            } catch (IOException | InterruptedException cut) {
                // The other direction ends as well.
            }
            close(from);
            close(to);
        });
        copying.setDaemon(true);
        copying.start();
    }

    private static int oneLess(int replies) {
        return replies == 0 || replies == Integer.MAX_VALUE ? Integer.MAX_VALUE : replies - 1;
    }

    private static void close(Socket socket) {
        try {
            socket.close();
        } catch (IOException closed) {
            // It is closed.
        }
    }

    @Override
    public void close() throws IOException {
        listener.close();
        cut();
    }
}
