/* Frees memory that is registered and being sent, which AddressSanitizer must find.
 *
 * injected LIBRARY VERSION */
#include "pair.h"

int main(int count, char **arguments)
{
    CHECK(count == 3);
    begin_time_limit(60);
    load(arguments[1], atoi(arguments[2]));
    void *context;
    OK(net_init(&context));
    struct pair pair = connect_pair(context, context, 0);
    struct buffer from = make_buffer(pair.send, 1 << 20), to = make_buffer(pair.recv, 1 << 20);
    void *recv = post_recv(&pair, &to, 0, 1 << 20, 0);
    free(from.data);
    void *send = post_send(&pair, &from, 0, 1 << 20, 0);
    finish(send, NULL);
    finish(recv, NULL);
    return 0;
}
